//! What we send is read back by a client that nobody here wrote: `boto3`.

use pillarbox_conformance::delivery::confirm;
use pillarbox_conformance::readback::{assert_attributes, published, python};
use pillarbox_transport_sqs::SqsSink;
use serde_json::{Value, json};

use crate::harness::{OwnQueue, variable};

#[tokio::test]
async fn python_reads_every_attribute_header_and_byte() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/readback.py");
    for queue in [OwnQueue::standard().await, OwnQueue::fifo().await] {
        let [full, bytes] = published();
        let url = queue.at("source=%2Fshop%20%C3%BC");
        confirm(&SqsSink::new(&url).unwrap(), &[full.clone(), bytes.clone()]).await;
        let read = python(&variable("PILLARBOX_TEST_PYTHON"), script, &[&queue.server, &queue.name, "2"]);
        let [first, second] = &read[..] else { panic!("{read:?}") };
        assert_attributes(&first["event"], &full, "/shop \u{fc}");
        assert_eq!((&first["event"]["shop"], &first["event"]["data"]), (&json!("north"), &json!({"id": 7})));
        assert_eq!(second["event"]["datacontenttype"], "application/octet-stream");
        assert_eq!(
            (&second["event"]["subject"], &second["event"]["data_base64"]),
            (&Value::Null, &json!("AP8NCg=="))
        );
        assert_eq!((&first["attributes"], &second["attributes"]), (&json!(0), &json!(0)));
        if queue.name.ends_with(".fifo") {
            assert_eq!(second["group"], bytes.event_id.to_string());
            assert_eq!(second["dedup"], bytes.event_id.to_string());
            assert!(first["group"].as_str().unwrap().starts_with("sha256-"), "{first}");
        } else {
            assert_eq!((&first["group"], &first["dedup"]), (&Value::Null, &Value::Null));
        }
    }
}
