//! What we publish is read back by a client that nobody here wrote, `confluent-kafka`, and what it writes is consumed.

use std::process::Command;

use pillarbox_conformance::delivery::confirm;
use pillarbox_conformance::readback::{assert_attributes, published};
use pillarbox_core::Received;
use pillarbox_core::port::{Message, Source};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};
use serde_json::{Value, json};

use crate::harness::{Fake, variable};
use crate::source::next;

/// Runs a script, and returns what it printed.
async fn python(script: &str, args: &[&str]) -> Vec<u8> {
    let mut python = Command::new(variable("PILLARBOX_TEST_PYTHON"));
    python.arg(script).args(args);
    let output = tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Publishes with every codec, and reads it back in Python.
pub(crate) async fn python_reads(server: &str, topic: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/readback.py");
    let codecs = ["none", "gzip", "snappy", "lz4"];
    let mut sent = Vec::new();
    for codec in codecs {
        let url = format!("{server}/{topic}?compression={codec}&source=%2Fshop%20%C3%BC");
        let batch = published();
        confirm(&KafkaSink::new(&url).unwrap(), &batch).await;
        sent.extend(batch);
    }
    let stdout =
        python(script, &[server.strip_prefix("kafka://").unwrap(), topic, &sent.len().to_string()]).await;
    let read: Vec<Value> =
        stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(read.len(), sent.len());
    for (record, entry) in read.iter().zip(&sent) {
        let headers = record["headers"].as_object().unwrap();
        let bare = |name: &str| match name {
            "content-type" => "datacontenttype".to_owned(),
            name => name.strip_prefix("ce_").unwrap_or(name).to_owned(),
        };
        let attributes: serde_json::Map<_, _> =
            headers.iter().map(|(name, value)| (bare(name), value.clone())).collect();
        assert_eq!(attributes["id"], entry.event_id.to_string());
        let key = entry.key.clone().unwrap_or_else(|| entry.event_id.to_string());
        assert_eq!(record["key"], key);
        if entry.key.is_some() {
            assert_attributes(&Value::Object(attributes), entry, "/shop \u{fc}");
            assert_eq!((&headers["shop"], &record["body"]), (&json!("north"), &json!("eyJpZCI6IDd9")));
        } else {
            assert_eq!(
                (&headers["content-type"], &record["body"]),
                (&json!("application/octet-stream"), &json!("AP8NCg=="))
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_reads_every_attribute_header_and_byte() {
    let place = Fake::new(1).await;
    python_reads(&place.server(), &place.topic).await;
}

/// The codecs of Kafka, by the number that a batch has for each.
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Where a batch has that number.
const CODEC_AT: usize = 22;

#[tokio::test(flavor = "multi_thread")]
async fn what_python_writes_with_any_compression_is_consumed() {
    let place = Fake::new(1).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/written.py");
    let (address, topic) = (place.broker.bootstrap_servers(), place.topic.as_str());
    let mut subscription =
        KafkaSource::new(&format!("{}?group=billing", place.url())).unwrap().subscribe().await.unwrap();
    for (number, codec) in CODECS.into_iter().enumerate() {
        python(script, &[&address, topic, codec, "20"]).await;
        let stored = place.broker.with_state(|state| {
            let batches = &state.partition(topic, 0).unwrap().log;
            usize::from(batches.last().unwrap()[CODEC_AT] & 7)
        });
        assert_eq!(stored, number, "it was written with {codec}");
        for n in 0..20 {
            let Message { attributes, headers, body, receipt, .. } = next(&mut subscription).await;
            let event = Received::decode(attributes, headers, body).unwrap();
            let text = String::from_utf8(event.payload).unwrap();
            assert!(text.starts_with(&format!("{codec} {n} x")), "{text}");
            assert_eq!(event.key.as_deref(), Some("k"));
            receipt.ack().await.unwrap();
        }
    }
}
