//! `mqtt+qos0:` publishes without acknowledgements. A listener of the test's own hears what comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::delivery::{assert_outcome, confirm, deliver_one, entries, fresh};
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::ErrorKind;
use pillarbox_core::port::Sink;
use pillarbox_transport_mqtt::{MqttSink, MqttSource, MqttTranscript};

use crate::harness::{OwnTopic, SERVER, variable};
use crate::suites::{context, received};

/// Topics with somebody who listens.
struct Qos0 {
    place: OwnTopic,
    sink: Arc<MqttSink>,
}

/// The same URL, without acknowledgements.
fn unacknowledged(url: &str) -> String {
    url.replacen("://", "+qos0://", 1)
}

#[async_trait]
impl SinkHarness for Qos0 {
    fn name() -> &'static str {
        "mosquitto, quality of service 0"
    }

    async fn start() -> Self {
        let place = OwnTopic::new().await;
        let sink = Arc::new(MqttSink::new(&unacknowledged(&place.to())).unwrap());
        Self { place, sink }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.place.listener.messages().await.iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.place.listener.messages().await.into_iter().map(context).collect())
    }
}

mod suite {
    pillarbox_conformance::sink_conformance!(super::Qos0);
}

/// This is what the name says: nothing is kept.
#[tokio::test]
async fn an_event_that_nobody_listens_to_is_confirmed_and_gone() {
    let url = format!("{}/{}", variable(SERVER), fresh("nobody"));
    let sink = MqttSink::new(&unacknowledged(&url)).unwrap();
    assert!(!sink.capabilities().durable && !sink.capabilities().deduplicates);
    confirm(&sink, &entries(1)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_down() {
    let sink = MqttSink::new("mqtt+qos0://127.0.0.1:1/orders").unwrap();
    assert_outcome(&deliver_one(&sink, &entries(1)[0]).await, "down/unreachable");
}

#[test]
fn there_is_nothing_to_consume_or_to_read() {
    let url = "mqtt+qos0://127.0.0.1/orders";
    let refused =
        [MqttSource::new(&format!("{url}?client_id=billing")).map(drop), MqttTranscript::new(url).map(drop)];
    for refused in refused.map(Result::unwrap_err) {
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("mqtt://"), "{refused}");
    }
}
