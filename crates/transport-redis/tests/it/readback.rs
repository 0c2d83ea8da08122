//! What we publish is read back by clients that nobody here wrote: `redis-py` and the `cloudevents` package.

use pillarbox_core::{Event, Outcome};
use pillarbox_testkit::conformance::delivery::{deliver, entry};
use pillarbox_transport_redis::RedisSink;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Place, REDIS, VALKEY, variable};

async fn read(place: &Place) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/readback.py");
    let mut python = Command::new(variable("PILLARBOX_TEST_PYTHON"));
    let output = python.arg(script).args([&place.server, &place.stream]).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn python_reads_every_attribute_header_and_byte() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let sink = RedisSink::new(&format!("{}&source=%2Fshop%20%C3%BC", place.to())).unwrap();
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let full = entry(
            Event::new("order.placed", br#"{"id": 7}"#.to_vec())
                .key("Euro \u{20ac} 100% \"\u{1f600}\"")
                .tenant("acme")
                .correlation_id("c-1")
                .causation_id("b-1")
                .execution_id("e-1")
                .header("shop", "north")
                .header("traceparent", traceparent),
        );
        let bytes = entry(Event::new("blob", vec![0, 255, 13, 10]).content_type("application/octet-stream"));
        let outcomes = deliver(&sink, &[full.clone(), bytes.clone()]).await;
        assert_eq!(outcomes, [Outcome::Confirmed, Outcome::Confirmed]);

        let read = read(&place).await;
        assert_eq!(read.len(), 2);
        let attributes = &read[0]["attributes"];
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", full.event_id.to_string().as_str()),
            ("source", "/shop \u{fc}"),
            ("type", "order.placed"),
            ("subject", "Euro \u{20ac} 100% \"\u{1f600}\""),
            ("partitionkey", "Euro \u{20ac} 100% \"\u{1f600}\""),
            ("datacontenttype", "application/json"),
            ("traceparent", traceparent),
            ("correlationid", "c-1"),
            ("causationid", "b-1"),
            ("tenantid", "acme"),
            ("executionid", "e-1"),
            ("pillarboxhlc", full.hlc.unwrap().to_string().as_str()),
            ("pillarboxseq", "1"),
        ] {
            assert_eq!(attributes[name], value, "{name}");
        }
        assert_eq!(read[0]["headers"], json!({"shop": "north"}));
        assert_eq!(read[0]["event"]["id"], full.event_id.to_string());
        assert_eq!(read[0]["body"], "eyJpZCI6IDd9");
        assert_eq!((&read[1]["event"]["subject"], &read[1]["body"]), (&Value::Null, &json!("AP8NCg==")));
        assert_eq!(read[1]["attributes"]["partitionkey"], bytes.event_id.to_string());
    }
}
