//! What only a source of MQTT does.

use futures_util::FutureExt as _;
use pillarbox_conformance::delivery::{SOON, confirm, entries};
use pillarbox_core::ErrorKind;
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_transport_mqtt::{MqttSink, MqttSource};
use rumqttc::{PublishOptions, PublishProperties};

use crate::harness::OwnTopic;

async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    tokio::time::timeout(SOON, subscription.next()).await.expect("a message").unwrap().unwrap()
}

async fn plain(place: &OwnTopic, number: &str) {
    let topic = format!("{}/events/raw", place.name);
    place.listener.publish(&topic, number.as_bytes().to_vec(), PublishProperties::default()).await;
}

#[tokio::test]
async fn a_second_source_of_the_same_client_id_takes_over_and_the_first_is_told() {
    let place = OwnTopic::new().await;
    let [one, two] = ["", ""].map(|more| MqttSource::new(&place.from("1", more)).unwrap());
    let mut first = one.subscribe().await.unwrap();
    plain(&place, "1").await;
    let held = next(&mut first).await;
    let mut second = two.subscribe().await.unwrap();
    let error = tokio::time::timeout(SOON, first.next()).await.unwrap().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("client_id="), "{error}");
    // Its answer comes too late, and says so: the message belongs to the other one now.
    assert_eq!(held.receipt.ack().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let again = next(&mut second).await;
    assert_eq!((again.body.as_slice(), again.delivery_count), (&b"1"[..], Some(2)));
    again.receipt.ack().await.unwrap();
}

#[tokio::test]
async fn a_count_goes_on_over_the_connections_of_a_source() {
    let place = OwnTopic::new().await;
    let source = MqttSource::new(&place.from("1", "&nack_delay=0s")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    plain(&place, "1").await;
    for count in 1..=3 {
        let message = next(&mut subscription).await;
        assert_eq!(message.delivery_count, Some(count));
        message.receipt.nack().await.unwrap();
    }
    subscription.close().await;
    let message = next(&mut source.subscribe().await.unwrap()).await;
    assert_eq!(message.delivery_count, Some(4));
}

/// They are the last state of a topic, and from before anybody subscribed.
#[tokio::test]
async fn retained_messages_of_others_do_not_arrive() {
    let place = OwnTopic::new().await;
    let topic = format!("{}/events/state", place.name);
    place.listener.publish_with(&topic, "old", PublishOptions::at_least_once().retained()).await;
    for more in ["", "&group=billing"] {
        let url = format!("{}/{}/events/%23?client_id={}-c{more}", place.server, place.name, place.name);
        let mut subscription = MqttSource::new(&url).unwrap().subscribe().await.unwrap();
        assert!(subscription.next().now_or_never().is_none());
        // A new one that is published as retained is a message like any other.
        place.listener.publish_with(&topic, "new", PublishOptions::at_least_once().retained()).await;
        let message = next(&mut subscription).await;
        assert_eq!(message.body, b"new");
        message.receipt.ack().await.unwrap();
        subscription.close().await;
    }
}

/// The server does not wait for an answer to it, and there is none.
#[tokio::test]
async fn a_message_without_acknowledgement_arrives_and_is_answered_to_nobody() {
    let place = OwnTopic::new().await;
    let source = MqttSource::new(&place.from("1", "")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let topic = format!("{}/events/raw", place.name);
    for number in ["1", "2"] {
        place.listener.publish_with(&topic, number, PublishOptions::at_most_once()).await;
        let message = next(&mut subscription).await;
        assert_eq!((message.body.as_slice(), message.delivery_count), (number.as_bytes(), Some(1)));
        message.receipt.ack().await.unwrap();
    }
}

#[tokio::test]
async fn without_a_group_every_session_gets_every_message() {
    let place = OwnTopic::new().await;
    let of = |client: &str| {
        let url = format!("{}/{}/events/%23?client_id={}-{client}", place.server, place.name, place.name);
        MqttSource::new(&url).unwrap()
    };
    let (mut one, mut two) = (of("1").subscribe().await.unwrap(), of("2").subscribe().await.unwrap());
    confirm(&MqttSink::new(&place.to()).unwrap(), &entries(5)).await;
    for subscription in [&mut one, &mut two] {
        for _ in 0..5 {
            next(subscription).await.receipt.ack().await.unwrap();
        }
    }
}

/// The copy would be gone with the original.
#[tokio::test]
async fn what_nobody_would_keep_is_not_parked_and_comes_again() {
    let place = OwnTopic::new().await;
    let parked = format!("&nack_delay=0s&parked=nobody/{}", place.name);
    let source = MqttSource::new(&place.from("1", &parked)).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    plain(&place, "1").await;
    let error = next(&mut subscription).await.receipt.park().await.unwrap_err();
    assert!(error.to_string().contains("parked="), "{error}");
    let again = next(&mut subscription).await;
    assert_eq!((again.body.as_slice(), again.delivery_count), (&b"1"[..], Some(2)));
}

#[tokio::test]
async fn a_parked_copy_says_where_it_came_from() {
    let place = OwnTopic::new().await;
    let source = MqttSource::new(&place.from("1", &format!("&parked={}/parked", place.name))).unwrap();
    assert!(source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    let batch = entries(1);
    confirm(&MqttSink::new(&place.to()).unwrap(), &batch).await;
    next(&mut subscription).await.receipt.park().await.unwrap();
    let messages = place.listener.messages().await;
    let copy = messages.iter().find(|publish| publish.topic.ends_with(b"/parked")).unwrap();
    let property = |name: &str| crate::harness::property(copy, name);
    assert_eq!(property("pillarbox-parked-topic"), Some(format!("{}/events/order.placed", place.name)));
    assert_eq!(property("id"), Some(batch[0].event_id.to_string()));
    assert_eq!(copy.payload, batch[0].payload);
}

#[tokio::test]
async fn what_is_parked_without_a_place_for_it_is_gone_and_the_next_one_comes() {
    let place = OwnTopic::new().await;
    let source = MqttSource::new(&place.from("1", "&prefetch=1")).unwrap();
    assert!(!source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    for number in ["1", "2"] {
        plain(&place, number).await;
    }
    next(&mut subscription).await.receipt.park().await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(second.body, b"2");
    second.receipt.ack().await.unwrap();
}
