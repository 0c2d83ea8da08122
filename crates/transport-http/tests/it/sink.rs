//! The suite for sinks, over a real server that verifies every signature; and what is particular to webhooks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::post;
use pillarbox_conformance::sink as suite;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_http::{HttpSink, Receiver, VerifiedEvent, Verifier};

use super::harness::{OTHER_SECRET, SECRET, Server, deliver, entry, entry_of, id, private, secret, shown};

#[derive(Clone)]
struct Inbound {
    receiver: Receiver,
    received: Arc<Mutex<Vec<Received>>>,
    contexts: Contexts,
}

/// The attributes of each event, by their bare names.
type Contexts = Arc<Mutex<Vec<BTreeMap<String, String>>>>;

impl FromRef<Inbound> for Receiver {
    fn from_ref(inbound: &Inbound) -> Self {
        inbound.receiver.clone()
    }
}

async fn take(
    State(inbound): State<Inbound>,
    headers: HeaderMap,
    VerifiedEvent(event): VerifiedEvent,
) -> StatusCode {
    inbound.contexts.lock().unwrap().push(context(&headers));
    inbound.received.lock().unwrap().push(Received {
        event_id: event.event_id,
        event_type: event.event_type,
        key: event.key,
        payload: event.payload,
    });
    StatusCode::NO_CONTENT
}

fn context(headers: &HeaderMap) -> BTreeMap<String, String> {
    let named = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let bare = if name == "content-type" { "datacontenttype" } else { name.strip_prefix("ce-")? };
        Some((bare.to_owned(), percent_decoded(value.to_str().unwrap())))
    });
    named.collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(&encoded[..2], 16).unwrap());
        rest = &encoded[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap()
}

struct Harness<const CONCURRENCY: usize> {
    sink: Arc<HttpSink>,
    received: Arc<Mutex<Vec<Received>>>,
    contexts: Contexts,
    _server: Server,
}

#[async_trait]
impl<const CONCURRENCY: usize> SinkHarness for Harness<CONCURRENCY> {
    fn name() -> &'static str {
        if CONCURRENCY == 1 { "http, one at a time" } else { "http" }
    }

    async fn start() -> Self {
        let receiver = Receiver::new(Verifier::new([secret(SECRET)]).unwrap());
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let contexts = Contexts::default();
        let inbound = Inbound { receiver, received: Arc::clone(&received), contexts: Arc::clone(&contexts) };
        let server = Server::routing(Router::new().route("/hooks", post(take)).with_state(inbound)).await;
        let options = private(&server.url()).concurrency(CONCURRENCY).payload_bytes_max(64 * 1024);
        let sink = Arc::new(HttpSink::with_options(options.secret(secret(SECRET))).unwrap());
        Self { sink, received, contexts, _server: server }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::<HttpSink>::clone(&self.sink)
    }

    async fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.contexts.lock().unwrap().clone())
    }
}

mod one_at_a_time {
    type OneAtATime = super::Harness<1>;
    pillarbox_conformance::sink_conformance!(OneAtATime);
}

/// Many at a time keep the order of a key only (see `order.rs`): every case but that of the whole batch's order.
#[test]
fn the_suite_holds_with_many_requests_at_a_time() {
    let cases = suite::cases();
    let in_order = |name: &str| name == "order_is_kept_on_the_happy_path";
    assert_eq!(cases.iter().filter(|case| in_order(case.name)).count(), 1);
    for case in cases.iter().filter(|case| !in_order(case.name)) {
        suite::run::<Harness<32>>(case.name);
    }
}

#[tokio::test]
async fn a_webhook_is_a_post_with_the_payload_as_its_body() {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(SECRET)).source("/shop")).unwrap();
    let event = Event::new("order.placed", vec![0, 159, 146, 150, 13, 10])
        .content_type("application/octet-stream")
        .key("k\u{e9}y");
    assert_eq!(deliver(&sink, &[entry_of(1, event)]).await, [Outcome::Confirmed]);
    let seen = &server.seen()[0];
    let header = |name: &str| seen.headers[name].to_str().unwrap();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/hooks"));
    assert_eq!(seen.body, [0, 159, 146, 150, 13, 10][..]);
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!(header("content-length"), "6");
    assert_eq!(header("host"), server.address.to_string());
    assert_eq!(header("ce-source"), "/shop");
    assert_eq!(header("ce-subject"), "k%C3%A9y");
    assert_eq!(header("webhook-id"), id(1).to_string());
    assert_eq!(header("ce-id"), id(1).to_string());
    assert!(header("webhook-signature").starts_with("v1,"));
    assert!(header("user-agent").starts_with("pillarbox/"));
}

#[tokio::test]
async fn without_a_secret_a_webhook_is_not_signed() {
    let server = Server::status(200).await;
    assert_eq!(deliver(&super::harness::sink(&server.url()), &[entry(1)]).await, [Outcome::Confirmed]);
    assert!(!server.seen()[0].headers.contains_key("webhook-signature"));
    assert!(server.seen()[0].headers.contains_key("webhook-id"));
}

#[tokio::test]
async fn an_entry_fills_places_in_path_and_query() {
    let server = Server::status(200).await;
    let url = format!("http://{}/{{route}}/{{type}}?key={{key}}", server.address);
    let event = Event::new("order.placed", "").key("a/b?c");
    deliver(&super::harness::sink(&url), &[entry_of(1, event)]).await;
    assert_eq!(server.seen()[0].target, "/orders/order.placed?key=a%2Fb%3Fc");
}

/// One receiver after the other learns the new key while webhooks flow, and none is refused.
#[tokio::test]
async fn keys_change_in_mid_run_without_a_gap() {
    let known = Arc::new(Mutex::new(Verifier::new([secret(SECRET)]).unwrap()));
    let verifier = Arc::clone(&known);
    let server = Server::answering(move |seen| {
        let verified = verifier.lock().unwrap().verify(&seen.headers, &seen.body).is_ok();
        let status = if verified { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        std::future::ready(status.into_response())
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(SECRET))).unwrap();
    let batch: Vec<_> = (1..=10).map(entry).collect();
    let steps: [&dyn Fn(); 4] = [
        &|| (),
        &|| sink.set_secrets([secret(OTHER_SECRET), secret(SECRET)]).unwrap(),
        &|| *known.lock().unwrap() = Verifier::new([secret(OTHER_SECRET)]).unwrap(),
        &|| sink.set_secrets([secret(OTHER_SECRET)]).unwrap(),
    ];
    for step in steps {
        step();
        assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    }
    sink.set_secrets([secret(SECRET)]).unwrap();
    let refused: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
    assert!(refused.iter().all(|outcome| outcome.ends_with("http_401")), "{refused:?}");
    assert!(refused.iter().filter(|outcome| outcome.starts_with("failed")).count() <= 1, "{refused:?}");
}

#[test]
fn a_sink_shows_neither_its_keys_nor_its_path() {
    let options = private("https://example.org/services/canary?token=canary");
    let sink = HttpSink::with_options(options.secret(secret(SECRET))).unwrap();
    let shown = format!("{sink:?}");
    assert!(
        shown.contains("example.org") && !shown.contains("canary") && !shown.contains("MfKQ9"),
        "{shown}"
    );
}
