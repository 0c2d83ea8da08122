//! What we publish is read by clients that nobody here wrote, and what they publish is read by us.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox_conformance::delivery::{all_confirmed, deliver, entry};
use pillarbox_core::port::Source;
use pillarbox_core::{Event, Received, Timestamp};
use pillarbox_transport_amqp::{AmqpSink, AmqpSource};
use serde_json::Value;

use crate::harness::{Broker, server, variable};

async fn python(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/readback.py");
    let mut command = tokio::process::Command::new(variable("PILLARBOX_TEST_PYTHON"));
    let output = command.arg(script).args(arguments).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_python_client_reads_every_attribute_and_every_byte_of_what_we_publish() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    let sink = AmqpSink::new(&format!("{}?routing_key={queue}&source=/shop", server())).unwrap();
    let at: Timestamp = "2026-01-31T12:00:00.123456Z".parse().unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let full = entry(
        Event::new("order.placed", b" {\"b\": 1,\n \"a\" : 1.0e0}".to_vec())
            .key("o-1")
            .occurred_at(at)
            .tenant("north")
            .correlation_id("c-1")
            .causation_id("a-1")
            .execution_id("x-1")
            .header("traceparent", trace)
            .header("Plain-Header", "snow \u{2603}")
            .header("cloudEvents:id", "forged"),
    );
    let bare =
        entry(Event::new("blob", (0..=255).collect::<Vec<u8>>()).content_type("application/octet-stream"));
    all_confirmed(&deliver(&sink, &[full.clone(), bare.clone()]).await);

    let read = python(&["read", &server(), &queue, "2"]).await;
    let messages: Vec<Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second] = &messages[..] else { panic!("{read}") };
    let id = full.event_id.to_string();
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", &id),
        ("type", "order.placed"),
        ("source", "/shop"),
        ("subject", "o-1"),
        ("partitionkey", "o-1"),
        ("time", "2026-01-31T12:00:00.123456+00:00"),
        ("datacontenttype", "application/json"),
        ("traceparent", trace),
        ("tenantid", "north"),
        ("correlationid", "c-1"),
        ("causationid", "a-1"),
        ("executionid", "x-1"),
        ("pillarboxhlc", &full.hlc.unwrap().to_string()),
        ("pillarboxseq", &full.seq.to_string()),
    ] {
        assert_eq!(first["attributes"][name], value, "{name}");
    }
    assert_eq!(first["attributes"].as_object().unwrap().len(), 15, "{}", first["attributes"]);
    assert_eq!(first["headers"], serde_json::json!({"Plain-Header": "snow \u{2603}"}));
    assert_eq!(first["body"], STANDARD.encode(&full.payload));
    assert_eq!(first["message_id"], id);
    assert_eq!(first["type"], "order.placed");
    assert_eq!(first["timestamp"], at.as_micros() / 1_000_000);
    assert_eq!(first["delivery_mode"], 2, "persistent");
    assert_eq!(first["content_type"], "application/json");

    assert_eq!(second["body"], STANDARD.encode(&bare.payload));
    assert_eq!(second["attributes"]["id"], bare.event_id.to_string());
    assert_eq!(second["attributes"]["partitionkey"], bare.event_id.to_string());
    assert_eq!(second["attributes"]["subject"], Value::Null, "what is not set is absent");
    assert_eq!(second["content_type"], "application/octet-stream");
}

#[tokio::test]
async fn what_a_python_client_publishes_is_consumed_and_decoded() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let body = STANDARD.decode(python(&["write", &server(), &queue]).await.trim()).unwrap();
    let source = AmqpSource::new(&format!("{}?queue={queue}", server())).unwrap();
    let message = source.subscribe().await.unwrap().next().await.unwrap().unwrap();
    let received = Received::decode(message.attributes, message.headers, message.body).unwrap();
    assert_eq!(received.event_id.to_string(), "018f3c2e-0000-7000-8000-000000000001");
    assert_eq!((received.event_type.as_str(), received.source.as_str()), ("order.placed", "/python"));
    assert_eq!((received.key.as_deref(), received.tenant.as_deref()), (Some("o-1"), Some("north")));
    assert_eq!(received.occurred_at, Some("2026-01-31T12:00:00.123Z".parse().unwrap()));
    assert_eq!(received.content_type, "application/json");
    assert_eq!(received.headers["shop"], "7", "an extension that we do not know");
    assert_eq!(received.headers["plain"], "header");
    assert_eq!(received.payload, body);
    assert_eq!(received.json::<Value>().unwrap().payload["name"], "snow \u{2603}");
}

#[tokio::test]
async fn with_the_prefix_ce_a_python_client_reads_the_headers_without_help() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    let url = format!("{}?routing_key={queue}&header_prefix=ce-&source=/shop", server());
    let event = entry(Event::new("order.placed", "{\"n\":1}").key("o-1").tenant("north"));
    all_confirmed(&deliver(&AmqpSink::new(&url).unwrap(), &[event.clone(), event.clone()]).await);
    let read = python(&["read-ce", &server(), &queue, "1"]).await;
    let attributes: Value = serde_json::from_str(read.trim()).unwrap();
    for (name, value) in
        [("id", event.event_id.to_string().as_str()), ("type", "order.placed"), ("subject", "o-1")]
    {
        assert_eq!(attributes[name], value, "{read}");
    }
    let source = AmqpSource::new(&format!("{}?queue={queue}&header_prefix=ce-", server())).unwrap();
    let message = source.subscribe().await.unwrap().next().await.unwrap().unwrap();
    let received = Received::decode(message.attributes, message.headers, message.body).unwrap();
    assert_eq!((received.event_id, received.tenant.as_deref()), (event.event_id, Some("north")));
}
