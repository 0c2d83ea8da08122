//! What only a sink to Kafka does: entries of one key together, topics with escapes, compression.

use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use pillarbox_conformance::delivery::{assert_outcome, confirm, deliver, entries, entry, ids};
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, Event, EventId, Outcome};
use pillarbox_transport_kafka::KafkaSink;

use crate::harness::{Fake, event_id};

/// Entries of one key, as a relay by lanes hands them over.
fn of_one_key(count: usize) -> Vec<Entry> {
    let of = |n: usize| {
        let mut entry = entry(Event::new("order.placed", format!("{{\"n\":{n}}}")).key("hot"));
        entry.lane = Some(7);
        entry
    };
    (0..count).map(of).collect()
}

fn arrived(place: &Fake) -> Vec<EventId> {
    place.records().iter().map(event_id).collect()
}

/// A prefix is confirmed and there, the next one has the failure, and all behind it is untried.
fn assert_prefix(place: &Fake, batch: &[Entry], outcomes: &[Outcome], failure: &str) -> usize {
    let confirmed = outcomes.iter().take_while(|outcome| **outcome == Outcome::Confirmed).count();
    assert_outcome(&outcomes[confirmed], failure);
    assert!(outcomes[confirmed + 1..].iter().all(|outcome| *outcome == Outcome::Untried), "{outcomes:?}");
    assert_eq!(arrived(place), ids(&batch[..confirmed]), "what is not confirmed is not there");
    confirmed
}

#[tokio::test]
async fn entries_of_one_key_travel_together_and_in_order() {
    let place = Fake::new(3).await;
    let batch = of_one_key(1000);
    let sink = KafkaSink::new(&place.url()).unwrap();
    assert!(sink.capabilities().ordered_prefix);
    confirm(&sink, &batch).await;
    assert_eq!(arrived(&place), ids(&batch));
    let requests = place.broker.request_count(ApiKey::Produce);
    assert!(requests <= 4, "{requests} requests for a thousand entries of one key");
}

#[tokio::test]
async fn an_entry_that_is_refused_stops_those_of_its_key_behind_it() {
    let place = Fake::new(1).await;
    let batch = of_one_key(200);
    // Small batches, of which the third is refused. The others would be taken.
    place.broker.on_times(ApiKey::Produce, 2, |_| Control::Pass);
    place.broker.on_once(ApiKey::Produce, |_| Control::Error(ErrorCode::InvalidRecord));
    let sink = KafkaSink::new(&format!("{}?batch_bytes=4096", place.url())).unwrap();
    let outcomes = deliver(&sink, &batch).await;
    let confirmed = assert_prefix(&place, &batch, &outcomes, "rejected/invalid_record");
    assert!(confirmed > 1, "two batches went before it");
    assert_eq!(place.broker.request_count(ApiKey::Produce), 3, "nothing was sent behind the refusal");
    confirm(&sink, &batch[confirmed..]).await;
    assert_eq!(arrived(&place), ids(&batch));
}

#[tokio::test]
async fn an_entry_that_has_no_topic_stops_those_of_its_key_behind_it() {
    let place = Fake::new(1).await;
    let mut batch = of_one_key(20);
    batch.iter_mut().for_each(|entry| entry.event_type = "a".into());
    batch[12].event_type = "x".repeat(250);
    place.broker.create_topic(&format!("{}.a", place.topic), 1);
    let sink = KafkaSink::new(&format!("{}.{{type}}", place.url())).unwrap();
    let outcomes = deliver(&sink, &batch).await;
    assert_outcome(&outcomes[12], "rejected/unroutable");
    assert!(outcomes[..12].iter().all(|outcome| *outcome == Outcome::Confirmed), "{outcomes:?}");
    assert!(outcomes[13..].iter().all(|outcome| *outcome == Outcome::Untried), "{outcomes:?}");
    let records = place.broker.all_records(&format!("{}.a", place.topic)).unwrap();
    assert_eq!(records.iter().map(event_id).collect::<Vec<_>>(), ids(&batch[..12]));
}

/// Too large together: the client would cut the batch and write the parts independently. In the end each is alone.
#[tokio::test]
async fn an_entry_that_is_too_large_stops_those_of_its_key_behind_it() {
    let place = Fake::new(1).await;
    let batch = of_one_key(16);
    // The whole, its halves and its quarters, and then the first one alone.
    place.broker.on_times(ApiKey::Produce, 8, |_| Control::Error(ErrorCode::MessageTooLarge));
    let outcomes = deliver(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    assert_eq!(assert_prefix(&place, &batch, &outcomes, "rejected/too_large"), 0);
}

#[tokio::test]
async fn an_answer_that_is_lost_in_the_middle_of_a_key_inverts_and_doubles_nothing() {
    let place = Fake::new(1).await;
    let batch = of_one_key(300);
    place.broker.on_times(ApiKey::Produce, 3, |_| Control::Pass);
    place.broker.on_times(ApiKey::Produce, 2, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    place.broker.on_once(ApiKey::Produce, |_| Control::Disconnect);
    confirm(&KafkaSink::new(&format!("{}?batch_bytes=4096", place.url())).unwrap(), &batch).await;
    assert_eq!(arrived(&place), ids(&batch));
}

#[tokio::test]
async fn a_leader_that_moves_in_the_middle_of_a_key_inverts_nothing() {
    let broker = FakeBroker::start_cluster(2).await.unwrap();
    broker.create_topic("orders", 1);
    let batch = of_one_key(300);
    let sink =
        KafkaSink::new(&format!("kafka://{}/orders?batch_bytes=4096", broker.bootstrap_servers())).unwrap();
    let moving = async {
        for round in 0..20 {
            let nodes =
                broker.with_state(|state| state.brokers.iter().map(|node| node.node_id).collect::<Vec<_>>());
            broker.set_leader("orders", 0, nodes[round % nodes.len()]);
            tokio::task::yield_now().await;
        }
    };
    let (outcomes, ()) = tokio::join!(deliver(&sink, &batch), moving);
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed), "{outcomes:?}");
    let arrived: Vec<_> = broker.all_records("orders").unwrap().iter().map(event_id).collect();
    assert_eq!(arrived, ids(&batch));
}

/// A key must not choose another topic, and two keys must not meet in one.
#[tokio::test]
async fn a_key_is_a_part_of_the_topic_whatever_is_in_it() {
    let place = Fake::new(1).await;
    let sink = KafkaSink::new(&format!("{}.{{key}}", place.url())).unwrap();
    for (key, part) in
        [("o-1", "o-1"), ("a/b", "a_2Fb"), ("..", ".."), ("a_2Fb", "a_5F2Fb"), ("\u{20ac}", "_E2_82_AC")]
    {
        let topic = format!("{}.{part}", place.topic);
        place.broker.create_topic(&topic, 1);
        let order = entry(Event::new("t", "{}").key(key));
        confirm(&sink, std::slice::from_ref(&order)).await;
        let records = place.broker.all_records(&topic).unwrap();
        assert_eq!(records.iter().map(event_id).collect::<Vec<_>>(), [order.event_id], "{topic}");
        assert_eq!(records[0].key_str(), Some(key));
    }
}

#[tokio::test]
async fn what_is_compressed_arrives_byte_for_byte() {
    for codec in ["none", "gzip", "snappy", "lz4"] {
        let place = Fake::new(1).await;
        let batch = entries(200);
        confirm(&KafkaSink::new(&format!("{}?compression={codec}", place.url())).unwrap(), &batch).await;
        let bodies: Vec<_> =
            place.records().into_iter().map(|record| record.value.unwrap().to_vec()).collect();
        assert_eq!(bodies, batch.iter().map(|entry| entry.payload.clone()).collect::<Vec<_>>(), "{codec}");
    }
}
