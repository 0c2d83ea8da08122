//! What can be read as a transcript.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::delivery::{confirm, entries, ids};
use pillarbox_conformance::transcript::{TranscriptHarness, read};
use pillarbox_core::RouteName;
use pillarbox_core::port::{Sink, Transcript};
use pillarbox_transport_kafka::{KafkaSink, KafkaTranscript};

use crate::harness::Fake;

#[async_trait]
impl TranscriptHarness for Fake {
    const NAME: &'static str = "fake cluster";

    async fn start() -> Self {
        Self::new(1).await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(KafkaSink::new(&self.url()).unwrap())
    }

    fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
        let route = RouteName::new(&*self.topic).unwrap();
        vec![
            Box::new(KafkaTranscript::new(&self.url()).unwrap()),
            Box::new(
                KafkaTranscript::of_sink(&format!("{}/{{route}}?compression=lz4", self.server()), &route)
                    .unwrap(),
            ),
        ]
    }

    async fn publish_foreign(&self) {
        self.publish(krafka::Record::tombstone(&*self.topic, "k")).await;
    }

    fn missing(&self) -> Vec<Box<dyn Transcript>> {
        vec![Box::new(KafkaTranscript::new(&format!("{}/missing", self.server())).unwrap())]
    }
}

pillarbox_conformance::transcript_conformance!(Fake);

#[tokio::test]
async fn every_partition_is_read_from_its_first_offset_to_its_last() {
    let place = Fake::new(5).await;
    let batch = entries(300);
    confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    let (mut arrived, deleted) = read(&KafkaTranscript::new(&place.url()).unwrap()).await.unwrap();
    arrived.sort_unstable();
    let mut expected: Vec<_> = ids(&batch).iter().map(ToString::to_string).collect();
    expected.sort_unstable();
    assert_eq!((arrived, deleted), (expected, 0));
}

#[test]
fn what_a_sink_writes_to_must_be_one_topic() {
    let route = RouteName::new("orders").unwrap();
    assert!(KafkaTranscript::of_sink("kafka://h/s.{route}", &route).is_ok());
    let error = KafkaTranscript::of_sink("kafka://h/s.{type}", &route).map(drop).unwrap_err();
    assert!(error.to_string().contains("one topic"), "{error}");
    assert!(KafkaTranscript::new("kafka://h/s?group=g").is_err());
}
