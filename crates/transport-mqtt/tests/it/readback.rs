//! What we publish is read back by a client that nobody here wrote: `paho-mqtt`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pillarbox_conformance::delivery::{confirm, fresh};
use pillarbox_conformance::readback::{assert_attributes, published};
use pillarbox_transport_mqtt::MqttSink;
use serde_json::{Value, json};

use crate::harness::{SERVER, variable};

#[tokio::test]
async fn python_reads_every_attribute_header_and_byte() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/readback.py");
    let (server, name) = (variable(SERVER), fresh("readback"));
    let port = server.rsplit_once(':').unwrap().1;
    for qos in [1, 2] {
        let mut python = Command::new(variable("PILLARBOX_TEST_PYTHON"))
            .args([script, "127.0.0.1", port, &format!("{name}/#"), "2"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next(), json!({"subscribed": true}));

        let url = format!("{server}/{name}/{{type}}/{{key}}?qos={qos}&source=%2Fshop%20%C3%BC");
        let [full, bytes] = published();
        confirm(&MqttSink::new(&url).unwrap(), &[full.clone(), bytes.clone()]).await;
        let [mut first, second] = [next(), next()];
        assert!(python.wait().unwrap().success());

        // The binding has the content type in MQTT's own property.
        let content_type = first["content_type"].take();
        first["properties"]["datacontenttype"] = content_type;
        assert_attributes(&first["properties"], &full, "/shop \u{fc}");
        assert_eq!(first["topic"], format!("{name}/order.placed/Euro \u{20ac} 100%25 \"\u{1f600}\""));
        assert_eq!((&first["qos"], &first["retain"]), (&json!(qos), &json!(false)));
        assert_eq!((&first["properties"]["shop"], &first["body"]), (&json!("north"), &json!("eyJpZCI6IDd9")));
        assert_eq!(second["content_type"], "application/octet-stream");
        assert_eq!((&second["properties"]["subject"], &second["body"]), (&Value::Null, &json!("AP8NCg==")));
        assert_eq!(second["properties"]["partitionkey"], bytes.event_id.to_string());
    }
}
