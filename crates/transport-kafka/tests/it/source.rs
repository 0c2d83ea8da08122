//! What only a source of Kafka does.

use futures_util::FutureExt as _;
use krafka::Record;
use pillarbox_conformance::delivery::{SOON, confirm, entries, ids};
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, EventId, Received};
use pillarbox_testkit::{Fault, FaultProxy, eventually};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};

use crate::harness::{Fake, header};

pub(crate) async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    tokio::time::timeout(SOON, subscription.next()).await.expect("a message").unwrap().unwrap()
}

pub(crate) fn id(message: &Message) -> EventId {
    message.attributes["id"].parse().unwrap()
}

fn source(place: &Fake, more: &str) -> KafkaSource {
    KafkaSource::new(&format!("{}?group=billing{more}", place.url())).unwrap()
}

async fn with_events(count: usize) -> (Fake, Vec<EventId>) {
    let place = Fake::new(1).await;
    let batch = entries(count);
    confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    (place, ids(&batch))
}

/// The offset that the group has committed.
fn committed(place: &Fake) -> Option<i64> {
    place.broker.committed_offset("billing", &place.topic, 0)
}

#[tokio::test]
async fn an_offset_is_committed_when_all_before_it_was_answered() {
    let (place, _) = with_events(5).await;
    let mut subscription = source(&place, "").subscribe().await.unwrap();
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(next(&mut subscription).await);
    }
    let first = held.remove(0);
    for message in held.drain(..3) {
        message.receipt.ack().await.unwrap();
    }
    first.receipt.ack().await.unwrap();
    eventually(SOON, async || committed(&place) == Some(4)).await;
    held.remove(0).receipt.ack().await.unwrap();
    eventually(SOON, async || committed(&place) == Some(5)).await;
}

/// A group has one offset for a partition, and no list of answers.
#[tokio::test]
async fn what_was_answered_behind_an_unanswered_message_comes_again_with_it() {
    let (place, ids) = with_events(4).await;
    let mut subscription = source(&place, "").subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    next(&mut subscription).await.receipt.ack().await.unwrap();
    subscription.close().await;
    assert_eq!(committed(&place), Some(1));
    assert_eq!(held.receipt.ack().await.unwrap_err().kind(), ErrorKind::Unavailable, "it comes too late");
    let mut again = source(&place, "").subscribe().await.unwrap();
    for id_again in &ids[1..] {
        assert_eq!(id(&next(&mut again).await), *id_again);
    }
}

/// Neither committed nor closed: the process is gone, and the server notices.
#[tokio::test]
async fn a_dropped_subscription_leaves_its_group_and_the_next_one_goes_on() {
    let (place, ids) = with_events(3).await;
    let source = source(&place, "");
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    drop((held, subscription));
    let mut again = source.subscribe().await.unwrap();
    let message = next(&mut again).await;
    assert_eq!((id(&message), message.delivery_count), (ids[1], Some(2)), "this source counts on");
}

#[tokio::test]
async fn no_more_is_unanswered_than_was_asked_for() {
    let (place, ids) = with_events(20).await;
    let mut subscription = source(&place, "&prefetch=2").subscribe().await.unwrap();
    let (one, two) = (next(&mut subscription).await, next(&mut subscription).await);
    assert!(subscription.next().now_or_never().is_none());
    one.receipt.ack().await.unwrap();
    let three = next(&mut subscription).await;
    assert_eq!(id(&three), ids[2]);
    two.receipt.nack().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[1], "what was given back comes first");
}

/// The client connects again by itself.
#[tokio::test]
async fn a_cut_connection_is_repaired_and_nothing_is_lost() {
    let (place, ids) = with_events(50).await;
    let (proxy, through) = FaultProxy::before(&place.server());
    place.advertise(&through);
    let url = format!("{through}/{}?group=billing&prefetch=5", place.topic);
    let mut subscription = KafkaSource::new(&url).unwrap().subscribe().await.unwrap();
    let mut arrived = Vec::new();
    while arrived.len() < 50 {
        let message = next(&mut subscription).await;
        arrived.push(id(&message));
        if arrived.len() % 10 == 0 {
            proxy.set(Fault::Cut);
            proxy.heal();
        }
        message.receipt.ack().await.unwrap();
    }
    assert_eq!(arrived, ids);
    assert!(proxy.broken() > 0);
    eventually(SOON, async || committed(&place) == Some(50)).await;
}

/// A null value deletes a key in a compacted topic. It says nothing that could be applied.
#[tokio::test]
async fn a_record_without_a_value_is_no_event_and_can_be_parked() {
    let place = Fake::new(1).await;
    let parked = format!("{}.parked", place.topic);
    place.broker.create_topic(&parked, 1);
    let batch = entries(1);
    confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    let headers = place.records()[0].headers.clone();
    let mut tombstone = Record::tombstone(&*place.topic, "k");
    tombstone.headers = headers;
    place.publish(tombstone).await;
    let flooded =
        (0..500).fold(Record::new(&*place.topic, "x"), |record, n| record.header(format!("h{n}"), "x"));
    place.publish(flooded.null_header("ce_id").header("ce_type", &b"\xff\xfe"[..])).await;

    let mut subscription = source(&place, &format!("&parked={parked}")).subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    for _ in 0..2 {
        let Message { attributes, headers, body, receipt, .. } = next(&mut subscription).await;
        let refused = Received::decode(attributes, headers, body).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        receipt.park().await.unwrap();
    }
    let copies = place.broker.all_records(&parked).unwrap();
    assert_eq!(copies.len(), 2);
    assert!(copies[0].is_tombstone());
    assert_eq!(header(&copies[0], "pillarbox-parked-topic").as_deref(), Some(&*place.topic));
    assert_eq!(header(&copies[0], "pillarbox-parked-partition").as_deref(), Some("0"));
    assert_eq!(header(&copies[0], "pillarbox-parked-offset").as_deref(), Some("1"));
    eventually(SOON, async || committed(&place) == Some(3)).await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_parked_and_comes_again() {
    let (place, ids) = with_events(1).await;
    let mut subscription = source(&place, "&parked=missing&connect_timeout=1s").subscribe().await.unwrap();
    let error = next(&mut subscription).await.receipt.park().await.unwrap_err();
    assert!(error.to_string().contains("parked="), "{error}");
    let again = next(&mut subscription).await;
    assert_eq!((id(&again), again.delivery_count), (ids[0], Some(2)));
}

#[tokio::test]
async fn what_is_parked_without_a_place_for_it_is_passed_over() {
    let (place, ids) = with_events(2).await;
    let source = source(&place, "");
    assert!(!source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[1]);
    eventually(SOON, async || committed(&place) == Some(1)).await;
}

#[tokio::test]
async fn a_new_group_begins_where_it_is_told_to() {
    let (place, before) = with_events(3).await;
    let mut late = source(&place, "&start=latest").subscribe().await.unwrap();
    let waiting = async {
        loop {
            // Until the group has joined, a new event may come before its beginning.
            let batch = entries(1);
            confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
            if let Ok(message) =
                tokio::time::timeout(std::time::Duration::from_millis(500), late.next()).await
            {
                return id(&message.unwrap().unwrap());
            }
        }
    };
    let first = tokio::time::timeout(SOON, waiting).await.unwrap();
    assert!(!before.contains(&first), "what was there before does not come");
}
