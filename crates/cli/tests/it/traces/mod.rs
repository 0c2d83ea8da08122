//! Traces of the binary, read back from a receiver of OTLP: who is linked to whom, what is stored, and what happens
//! while nobody receives.

mod receiver;

use std::net::TcpListener;
use std::process::Command;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::home::{Home, Said, eventually};
use receiver::{Receiver, hex, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const EVENT: &str = "01932c07-a9f0-7000-8000-000000000001";
/// Answers every event with yes.
const YES: &str = "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'id': json.loads(line)['id'], 'ok': True}), flush=True)\n";

/// A directory whose commands send traces to this URL.
fn home(endpoint: &str, more: &str) -> Home {
    let home = Home::migrated();
    home.write("pillarbox.toml", &format!("[trace]\nendpoint = \"{endpoint}\"\n{more}"));
    home
}

/// Spans are sent at once, so that a test need not wait for them.
fn promptly(mut command: Command) -> Command {
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command
}

fn run(command: Command) -> Said {
    let said: Said = promptly(command).output().unwrap().into();
    assert_eq!(said.code, 0, "{said:?}");
    said
}

/// Stages one event in the caller's trace, with values that must stay out of traces.
fn stage(home: &Home) {
    let mut command = home.command([
        "stage",
        "--route",
        "orders",
        "--type",
        "order.placed",
        "--key",
        "canary-key",
        "--payload",
        "{\"card\": \"canary-payload\"}",
        "--header",
        "note=canary-header",
        "--event-id",
        EVENT,
    ]);
    command.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    run(command);
}

fn stored(home: &Home) -> String {
    let entry = home.ok(["show", EVENT, "--json"]).json();
    entry["headers"]["traceparent"].as_str().unwrap_or_else(|| panic!("{entry}")).to_owned()
}

/// The contexts that a span is linked to, as a stored `traceparent` has them.
fn links(span: &Span) -> Vec<String> {
    span.links.iter().map(|link| format!("00-{}-{}-01", hex(&link.trace_id), hex(&link.span_id))).collect()
}

fn attribute(span: &Span, name: &str) -> String {
    text(&span.attributes, name)
}

/// A stream of a Redis server of the tests, as a destination and as a queue.
fn queue(name: &str) -> (String, String, String) {
    let server = std::env::var("PILLARBOX_TEST_REDIS").expect(
        "PILLARBOX_TEST_REDIS is not set: run this through `cargo xtask services redis -- cargo test`",
    );
    let stream = format!("traces-{name}-{}", uuid::Uuid::now_v7());
    let to = format!("{server}?stream={stream}");
    (to.clone(), format!("{to}&group=billing&consumer=one"), stream)
}

fn deliver_and_consume(home: &Home, name: &str) -> String {
    let (to, from, stream) = queue(name);
    run(home.command(["relay", "--drain", "--route", "orders", "--to", &to]));
    home.write("yes.py", YES);
    run(home.command([
        "consume",
        "--name",
        "billing",
        "--from",
        &from,
        "--to",
        "exec:python3 yes.py",
        "--idle",
        "1s",
    ]));
    stream
}

#[test]
fn each_step_of_an_entry_is_linked_to_its_creation_which_stays_as_it_was_stored() {
    let receiver = Receiver::start();
    let home = home(&receiver.url, "");
    stage(&home);
    let create = receiver.span("create", "stage orders");
    assert_eq!((hex(&create.trace_id), hex(&create.parent_span_id)), (TRACE.into(), CALLER.into()));
    assert_eq!(create.kind(), SpanKind::Producer);
    assert_eq!(attribute(&create, "messaging.message.id"), EVENT);
    let creation = stored(&home);
    assert_eq!(creation, format!("00-{TRACE}-{}-01", hex(&create.span_id)));

    let stream = deliver_and_consume(&home, "linked");
    assert_eq!(stored(&home), creation, "the relay changed what is stored");
    let send = receiver.span("send", "publish orders");
    let settle = receiver.span("settle", "settle orders");
    let process = receiver.span("process", &format!("process {stream}"));
    let answer = receiver.span("settle", &format!("ack {stream}"));
    for (span, kind, system) in [
        (&send, SpanKind::Client, "redis"),
        (&settle, SpanKind::Client, "pillarbox"),
        (&process, SpanKind::Consumer, "redis"),
        (&answer, SpanKind::Client, "redis"),
    ] {
        assert_eq!(links(span), std::slice::from_ref(&creation), "{}", span.name);
        assert_eq!(text(&span.links[0].attributes, "messaging.message.id"), EVENT);
        assert_ne!(hex(&span.trace_id), TRACE, "{}: a linked span begins a trace of its own", span.name);
        assert_eq!((span.kind(), attribute(span, "messaging.system").as_str()), (kind, system));
        assert_eq!(attribute(span, "messaging.message.id"), EVENT, "{}", span.name);
        assert_eq!(attribute(span, "messaging.batch.message_count"), "", "one message is no batch");
        assert_ne!(span.status.clone().unwrap_or_default().code(), StatusCode::Error, "{span:?}");
    }
    assert_eq!(attribute(&send, "messaging.destination.name"), "orders");
    assert_eq!(attribute(&process, "messaging.destination.name"), stream);
    assert_eq!(attribute(&process, "messaging.consumer.group.name"), "billing");
    assert_eq!((&answer.trace_id, &answer.parent_span_id), (&process.trace_id, &process.span_id));
    assert!(receiver.services().iter().all(|service| service == "pillarbox"), "{:?}", receiver.services());
    assert!(!receiver.everything().contains("canary"), "{}", receiver.everything());
}

#[test]
fn a_consumer_continues_the_trace_if_the_relation_is_parent() {
    let receiver = Receiver::start();
    let home = home(&receiver.url, "relation = \"parent\"\n");
    stage(&home);
    let create = receiver.span("create", "stage orders");
    let stream = deliver_and_consume(&home, "parent");
    let process = receiver.span("process", &format!("process {stream}"));
    assert_eq!((&process.trace_id, &process.parent_span_id), (&create.trace_id, &create.span_id));
    assert_eq!(process.links, []);
    // What relays do stays apart: a delivery has many parents.
    let send = receiver.span("send", "publish orders");
    assert_ne!(send.trace_id, create.trace_id);
    assert_eq!(links(&send), [stored(&home)]);
}

#[test]
fn a_delivery_of_many_entries_has_a_link_to_each_creation() {
    const EVENTS: u32 = 300;
    let receiver = Receiver::start();
    let home = home(&receiver.url, "");
    home.stage_many("orders", EVENTS);
    let count = usize::try_from(EVENTS).unwrap();
    run(home.command(["relay", "--drain", "--route", "orders", "--to", "null:"]));
    let created: Vec<String> = receiver
        .spans("create", count)
        .iter()
        .map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)))
        .collect();
    for (operation, name) in [("send", "publish orders"), ("settle", "settle orders")] {
        let spans = receiver.spans(operation, 1);
        let mut linked = Vec::new();
        for span in spans.iter().filter(|span| span.name == name) {
            assert_eq!(attribute(span, "messaging.batch.message_count"), span.links.len().to_string());
            assert_eq!(span.dropped_links_count, 0);
            linked.extend(links(span));
        }
        let (mut linked, mut created) = (linked, created.clone());
        linked.sort();
        created.sort();
        assert_eq!(linked, created, "{operation}");
    }
}

#[test]
fn a_delivery_that_fails_is_an_error_with_its_kind() {
    let receiver = Receiver::start();
    let home = home(&receiver.url, "");
    stage(&home);
    // Nothing listens on the discard port.
    let to = "redis://127.0.0.1:9/0?stream=s";
    let said: Said = promptly(home.command(["relay", "--drain", "--route", "orders", "--to", to]))
        .output()
        .unwrap()
        .into();
    said.refused(1, &["the destination of route orders is down"]);
    let send = receiver.spans("send", 1).remove(0);
    assert_eq!(attribute(&send, "error.type"), "down");
    assert_eq!(send.status.unwrap_or_default().code(), StatusCode::Error);
}

#[test]
fn a_trace_of_the_application_is_kept_and_no_span_is_made_for_it() {
    let receiver = Receiver::start();
    let home = home(&receiver.url, "");
    let own = format!("00-{TRACE}-{CALLER}-01");
    let header = format!("traceparent={own}");
    run(home.command([
        "stage",
        "--route",
        "orders",
        "--type",
        "t",
        "--payload",
        "1",
        "--event-id",
        EVENT,
        "--header",
        &header,
    ]));
    run(home.command(["relay", "--drain", "--route", "orders", "--to", "null:"]));
    assert_eq!(links(&receiver.span("send", "publish orders")), std::slice::from_ref(&own));
    assert_eq!(stored(&home), own);
    assert!(!receiver.everything().contains("stage orders"));
}

#[test]
fn without_a_receiver_nothing_is_traced() {
    let home = Home::migrated();
    home.ok(["stage", "--route", "orders", "--type", "t", "--payload", "1", "--event-id", EVENT]);
    let entry = home.ok(["show", EVENT, "--json"]).json();
    assert_eq!(entry["headers"].get("traceparent"), None, "{entry}");
    let disabled = Receiver::start();
    let mut command = home.command(["stage", "--route", "orders", "--type", "t", "--payload", "1"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &disabled.url).env("OTEL_SDK_DISABLED", "true");
    run(command);
    let mut command = home.command(["stage", "--route", "orders", "--type", "t", "--payload", "1"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &disabled.url).env("OTEL_SERVICE_NAME", "shop");
    run(command);
    assert_eq!(disabled.spans("create", 1).len(), 1, "the variable alone turns traces on");
    assert_eq!(disabled.services(), ["shop"]);
}

#[test]
fn a_receiver_with_tls_gets_spans_if_its_certificate_is_trusted() {
    let (receiver, certificate) = Receiver::secure();
    let home = home(&receiver.url, "");
    home.write("authority.pem", &certificate);
    let staging = ["stage", "--route", "orders", "--type", "t", "--payload", "1"];
    let mut trusting = home.command(staging);
    trusting.env("SSL_CERT_FILE", home.path("authority.pem"));
    run(trusting);
    assert_eq!(receiver.spans("create", 1).len(), 1);
}

#[test]
fn a_certificate_that_is_not_trusted_gets_nothing_and_is_told() {
    let (receiver, _) = Receiver::secure();
    let home = home(&receiver.url, "");
    let said = run(home.command(["stage", "--route", "orders", "--type", "t", "--payload", "1"]));
    assert!(said.stderr.contains("traces cannot be sent"), "{said:?}");
    assert_eq!(home.totals()["pending"], 1);
}

#[test]
fn a_receiver_that_is_gone_is_told_once_and_stops_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = format!("http://{address}");
    let home = home(&endpoint, "[routes.orders]\nto = \"file:out.ndjson\"\npoll_max = \"20ms\"\n");
    let mut command = promptly(home.command(["relay"]));
    command.stdout(std::process::Stdio::null());
    command.stderr(std::fs::File::create(home.path("log")).unwrap());
    let mut relay = crate::home::Running::of(command.spawn().unwrap());
    let told = |what: &str| home.read("log").matches(what).count();
    let lines = || if home.path("out.ndjson").exists() { home.read("out.ndjson").lines().count() } else { 0 };
    for delivered in 1..=3 {
        stage_quietly(&home);
        eventually("the entry is delivered", || lines() == delivered);
        eventually("the log tells of the receiver", || told("traces cannot be sent") > 0);
    }
    let receiver = Receiver::on(TcpListener::bind(address).unwrap());
    stage_quietly(&home);
    eventually("the entry is delivered", || lines() == 4);
    receiver.spans("send", 1);
    eventually("the log tells that the receiver is back", || told("traces are sent again") == 1);
    assert_eq!(told("traces cannot be sent"), 1, "{}", home.read("log"));
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0, "{}", home.read("log"));
}

/// Stages without traces: only the relay is looked at.
fn stage_quietly(home: &Home) {
    let mut command = home.command(["stage", "--route", "orders", "--type", "t", "--payload", "1"]);
    command.env("OTEL_SDK_DISABLED", "true");
    let said: Said = command.output().unwrap().into();
    assert_eq!(said.code, 0, "{said:?}");
}
