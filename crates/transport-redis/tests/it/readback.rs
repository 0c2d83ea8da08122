//! What we publish is read back by clients that nobody here wrote: `redis-py` and the `cloudevents` package.

use pillarbox_conformance::delivery::confirm;
use pillarbox_conformance::readback::{assert_attributes, published, python};
use pillarbox_transport_redis::RedisSink;
use serde_json::{Value, json};

use crate::harness::{OwnStream, REDIS, VALKEY, variable};

#[tokio::test]
async fn python_reads_every_attribute_header_and_byte() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/readback.py");
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let sink = RedisSink::new(&format!("{}&source=%2Fshop%20%C3%BC", place.to())).unwrap();
        let [full, bytes] = published();
        confirm(&sink, &[full.clone(), bytes.clone()]).await;

        let read = python(&variable("PILLARBOX_TEST_PYTHON"), script, &[&place.server, &place.stream]);
        assert_eq!(read.len(), 2);
        assert_attributes(&read[0]["attributes"], &full, "/shop \u{fc}");
        assert_eq!(read[0]["headers"], json!({"shop": "north"}));
        assert_eq!(read[0]["event"]["id"], full.event_id.to_string());
        assert_eq!(read[0]["body"], "eyJpZCI6IDd9");
        assert_eq!((&read[1]["event"]["subject"], &read[1]["body"]), (&Value::Null, &json!("AP8NCg==")));
        assert_eq!(read[1]["attributes"]["partitionkey"], bytes.event_id.to_string());
    }
}
