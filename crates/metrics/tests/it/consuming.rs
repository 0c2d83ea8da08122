//! What a consumer counts.

use std::time::Duration;

use pillarbox_core::{Event, RouteName};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_metrics::Metrics;
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryStore, Published, sample_entry};

use crate::rig::value;

#[tokio::test(start_paused = true)]
async fn duplicates_and_parked_messages_are_counted_apart() {
    let (broker, metrics) = (MemoryBroker::new(), Metrics::new());
    let fine = sample_entry(
        RouteName::new("orders").unwrap(),
        Event::new("fine", "1").id("01932c07-a9f0-7000-8000-000000000001".parse().unwrap()),
    );
    let bad = sample_entry(
        RouteName::new("orders").unwrap(),
        Event::new("bad", "1").id("01932c07-a9f0-7000-8000-000000000002".parse().unwrap()),
    );
    for entry in [&fine, &fine, &bad] {
        broker.publish("orders", Published::of(entry));
    }
    let options = ConsumerOptions::default().idle(Some(Duration::from_secs(1))).concurrency(1);
    let consumer = Consumer::builder(broker.source("orders"), MemoryInbox::new(&MemoryStore::new()))
        .name("billing")
        .options(options)
        .observer(metrics.consumer("billing"))
        .build()
        .unwrap();
    let handler = async |_: &mut _, event: pillarbox_core::Received| match event.event_type.as_str() {
        "bad" => Err(HandlerError::reject("bad", "not for us")),
        _ => Ok(()),
    };
    let tally = consumer.run(std::future::pending(), handler).await.unwrap();
    assert_eq!((tally.processed, tally.duplicates, tally.parked), (1, 1, 1));
    let text = metrics.encode();
    for (outcome, wanted) in
        [("processed", 1.0), ("duplicate", 1.0), ("parked", 1.0), ("stale", 0.0), ("failed", 0.0)]
    {
        let sample = format!("pillarbox_consumed_total{{consumer=\"billing\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &sample), wanted, "{outcome}");
    }
    assert_eq!(value(&text, "pillarbox_handle_duration_seconds_count{consumer=\"billing\"}"), 3.0);
}
