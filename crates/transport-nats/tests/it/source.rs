//! What a source promises: everything arrives, and what is not answered comes again.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::push;
use futures_util::FutureExt;
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, Event, Outcome, Received};
use pillarbox_testkit::{Fault, FaultProxy, eventually};
use pillarbox_transport_nats::{NatsSink, NatsSource, Options};

use crate::harness::{DEBIAN, LATEST, Place, SOON, Server, deliver, entries, entry, fresh, variable};

async fn publish(place: &Place, count: usize) -> Vec<String> {
    let batch = entries(count);
    let sink = NatsSink::new(&place.to()).unwrap();
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    batch.iter().map(|entry| entry.event_id.to_string()).collect()
}

async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    let next = tokio::time::timeout(SOON, subscription.next()).await.expect("nothing arrives");
    next.unwrap().expect("a message")
}

fn id(message: &Message) -> String {
    message.attributes["id"].clone()
}

async fn subscribe_error(url: &str) -> pillarbox_core::Error {
    match NatsSource::new(url).unwrap().subscribe().await {
        Ok(_) => panic!("subscribed"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn what_was_published_arrives_whole_and_in_order() {
    for server in [DEBIAN, LATEST] {
        let place = Place::new(server).await;
        let sent = entry(
            Event::new("order.placed", vec![0, 0xff, 13, 10])
                .key("k ü")
                .tenant("acme")
                .content_type("application/octet-stream")
                .header("shop", "north \u{2603}")
                .header("Nats-Rollup", "all")
                .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        );
        deliver(&NatsSink::new(&place.to()).unwrap(), std::slice::from_ref(&sent)).await;
        let more = publish(&place, 200).await;
        let source = NatsSource::new(&place.from("")).unwrap();
        let mut subscription = source.subscribe().await.unwrap();
        let message = next(&mut subscription).await;
        assert_eq!(message.delivery_count, Some(1));
        let received = Received::decode(message.attributes, message.headers, message.body).unwrap();
        assert_eq!((received.event_id, received.payload), (sent.event_id, sent.payload));
        assert_eq!((received.key, received.headers), (sent.key, sent.headers));
        assert_eq!(received.content_type, "application/octet-stream");
        message.receipt.ack().await.unwrap();
        for expected in more {
            let message = next(&mut subscription).await;
            assert_eq!(id(&message), expected);
            message.receipt.ack().await.unwrap();
        }
        let info = place.stream().await.consumer_info("billing").await.unwrap();
        assert_eq!((info.num_ack_pending, info.num_pending), (0, 0), "every answer was heard");
    }
}

#[tokio::test]
async fn what_was_given_back_comes_again_and_is_counted() {
    for server in [DEBIAN, LATEST] {
        let place = Place::new(server).await;
        let ids = publish(&place, 1).await;
        let source = NatsSource::new(&place.from("&nack_delay=0s")).unwrap();
        let mut subscription = source.subscribe().await.unwrap();
        for count in 1..=3 {
            let message = next(&mut subscription).await;
            assert_eq!((id(&message), message.delivery_count), (ids[0].clone(), Some(count)));
            message.receipt.nack().await.unwrap();
        }
        next(&mut subscription).await.receipt.ack().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_given_back_waits_for_the_delay() {
    let place = Place::new(DEBIAN).await;
    publish(&place, 1).await;
    let source = NatsSource::new(&place.from("&nack_delay=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.nack().await.unwrap();
    let later = publish(&place, 1).await;
    assert_eq!(id(&next(&mut subscription).await), later[0], "others do not wait for it");
    assert!(subscription.next().now_or_never().is_none());
}

#[tokio::test]
async fn what_a_dropped_subscription_left_comes_again_at_once() {
    // The older server forgets one of several that are given back while nobody asks, until `ack_wait` is over.
    let place = Place::new(LATEST).await;
    let ids = publish(&place, 20).await;
    // Nothing but giving it back can make it come again within this test.
    let options =
        Options::of_source(&place.from("&nack_delay=0s")).unwrap().ack_wait(Duration::from_secs(3600));
    let source = NatsSource::with_options(options).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    let answered = next(&mut subscription).await;
    let stream = place.stream().await;
    eventually(SOON, async || stream.consumer_info("billing").await.unwrap().num_ack_pending == 20).await;
    // The answer to this comes behind all that the server has sent.
    answered.receipt.ack().await.unwrap();
    drop(subscription);
    drop(held);
    let mut subscription = source.subscribe().await.unwrap();
    let mut left: Vec<_> = ids.iter().filter(|id| **id != ids[1]).cloned().collect();
    while !left.is_empty() {
        let message = next(&mut subscription).await;
        let id = id(&message);
        assert_ne!(id, ids[1], "it was answered");
        left.retain(|left| *left != id);
        message.receipt.ack().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_dead_consumer_left_comes_again_after_ack_wait() {
    let place = Place::new(DEBIAN).await;
    let ids = publish(&place, 1).await;
    let source = NatsSource::new(&place.from("&ack_wait=200ms")).unwrap();
    let mut dead = source.subscribe().await.unwrap();
    // Neither answered nor dropped, as by a process that was killed.
    let held = next(&mut dead).await;
    std::mem::forget(held);
    let mut subscription = source.subscribe().await.unwrap();
    let message = next(&mut subscription).await;
    assert_eq!(id(&message), ids[0]);
    assert!(message.delivery_count > Some(1));
}

#[tokio::test]
async fn a_closed_subscription_has_given_back_what_nobody_saw() {
    let place = Place::new(LATEST).await;
    let ids = publish(&place, 20).await;
    // Nothing but giving it back can make it come again within this test, and nothing is left that could do so later.
    let source = NatsSource::new(&place.from("&ack_wait=1h&nack_delay=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let first = next(&mut subscription).await;
    let stream = place.stream().await;
    eventually(SOON, async || stream.consumer_info("billing").await.unwrap().num_ack_pending == 20).await;
    // The answer to this comes behind all that the server has sent.
    first.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(id(&held), ids[1]);
    subscription.close().await;
    std::mem::forget(held);
    drop((subscription, source));
    let source = NatsSource::new(&place.from("&ack_wait=1h&nack_delay=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let mut arrived = Vec::new();
    while arrived.len() < 18 {
        let message = next(&mut subscription).await;
        arrived.push(id(&message));
        message.receipt.ack().await.unwrap();
    }
    // Each of them, though the server does not promise an order to what comes again.
    arrived.sort();
    let mut left = ids[2..].to_vec();
    left.sort();
    assert_eq!(arrived, left);
}

#[tokio::test]
async fn what_was_parked_never_comes_again() {
    let place = Place::new(DEBIAN).await;
    let ids = publish(&place, 2).await;
    let source = NatsSource::new(&place.from("&ack_wait=100ms")).unwrap();
    assert!(!source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(id(&second), ids[1]);
    second.receipt.ack().await.unwrap();
    let info = place.stream().await.consumer_info("billing").await.unwrap();
    assert_eq!((info.num_ack_pending, info.num_pending), (0, 0));
}

#[tokio::test]
async fn a_parked_message_is_kept_where_the_url_says() {
    let place = Place::new(LATEST).await;
    let ids = publish(&place, 1).await;
    // In the same stream, where its id would make it a repetition.
    let parked = format!("{}.parked.here", place.name);
    let from = format!("{}/{}.order.>?durable=billing&parked={parked}", place.server, place.name);
    let source = NatsSource::new(&from).unwrap();
    assert!(source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let stored = place.stored().await;
    assert_eq!(stored.len(), 2);
    assert_eq!((stored[1].subject.as_str(), &stored[1].payload), (parked.as_str(), &stored[0].payload));
    assert_eq!(stored[1].headers.get("ce-id").unwrap().as_str(), ids[0]);
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let place = Place::new(DEBIAN).await;
    let source = NatsSource::new(&place.from("&prefetch=3")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let sink = NatsSink::new(&place.to()).unwrap();
    let batch = entries(50);
    let mut arrived = Vec::new();
    let receiving = async {
        while arrived.len() < batch.len() {
            // Dropped after a single look, again and again.
            match subscription.next().now_or_never() {
                Some(message) => {
                    let message = message.unwrap().unwrap();
                    assert_eq!(message.delivery_count, Some(1));
                    arrived.push(id(&message));
                    message.receipt.ack().await.unwrap();
                }
                None => tokio::task::yield_now().await,
            }
        }
    };
    let publishing = async {
        for entry in &batch {
            deliver(&sink, std::slice::from_ref(entry)).await;
        }
    };
    tokio::time::timeout(SOON, async { tokio::join!(receiving, publishing) })
        .await
        .expect("messages are lost");
    assert_eq!(arrived, batch.iter().map(|entry| entry.event_id.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn sources_of_one_name_share_the_messages() {
    let place = Place::new(DEBIAN).await;
    let (one, two) =
        (NatsSource::new(&place.from("&prefetch=1")), NatsSource::new(&place.from("&prefetch=1")));
    let mut one = one.unwrap().subscribe().await.unwrap();
    let mut two = two.unwrap().subscribe().await.unwrap();
    let ids = publish(&place, 2).await;
    let (first, second) = tokio::join!(next(&mut one), next(&mut two));
    let mut arrived = [id(&first), id(&second)];
    arrived.sort();
    let mut expected = [ids[0].clone(), ids[1].clone()];
    expected.sort();
    assert_eq!(arrived, expected);
}

#[tokio::test]
async fn a_message_of_someone_else_is_no_event_and_can_be_parked() {
    let place = Place::new(DEBIAN).await;
    let subject = format!("{}.raw", place.name);
    place.context.publish(subject.clone(), "not an event".into()).await.unwrap().await.unwrap();
    let mut flooded = HeaderMap::new();
    (0..500).for_each(|n| flooded.insert(format!("h{n}"), "x"));
    place.context.publish_with_headers(subject, flooded, "flooded".into()).await.unwrap().await.unwrap();
    let source = NatsSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    for body in ["not an event", "flooded"] {
        let message = next(&mut subscription).await;
        assert_eq!(message.body, body.as_bytes());
        assert!(Received::decode(message.attributes, message.headers, message.body).is_err());
        message.receipt.park().await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_stream_is_not_found_and_named() {
    let (server, name) = (variable(DEBIAN), fresh("missing"));
    let error = subscribe_error(&format!("{server}/{name}.>?stream={name}&durable=d")).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&name), "{error}");
    let error = subscribe_error(&format!("{server}/{name}.>?durable=d")).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&name), "{error}");
}

#[tokio::test]
async fn what_waiting_cannot_mend_is_told_apart_from_what_it_can() {
    let error = subscribe_error("nats://127.0.0.1:1/orders?durable=d").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let server = Server::start(
        "jetstream { store_dir: \"DATA\" }
         authorization { users: [ { user: app, password: secret, permissions: { publish: { deny: \"$JS.>\" } } } ] }",
    )
    .await;
    let error =
        subscribe_error(&format!("nats://app:wrong@127.0.0.1:{}/orders?durable=d", server.port)).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    let url = format!("nats://app:secret@127.0.0.1:{}/orders?stream=orders&durable=d", server.port);
    let error = subscribe_error(&url).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("$JS.API.STREAM.INFO.orders"), "{error}");
    let off = Server::start("").await;
    let error = subscribe_error(&format!("{}/orders?stream=orders&durable=d", off.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("JetStream"), "{error}");
}

#[tokio::test]
async fn a_consumer_of_another_kind_is_refused() {
    let place = Place::new(DEBIAN).await;
    let config = push::Config {
        durable_name: Some("billing".into()),
        deliver_subject: fresh("push"),
        ..push::Config::default()
    };
    place.stream().await.create_consumer(config).await.unwrap();
    assert_eq!(subscribe_error(&place.from("")).await.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_lost_connection_is_told_and_the_next_subscription_goes_on() {
    let place = Place::new(DEBIAN).await;
    let ids = publish(&place, 2).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let from = place.from("&ack_wait=200ms").replacen(&place.server, &through, 1);
    let source = NatsSource::new(&from).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    proxy.set(Fault::Cut);
    let lost = tokio::time::timeout(SOON, subscription.next()).await.expect("told");
    assert_eq!(lost.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
    drop((held, subscription));
    let mut subscription = source.subscribe().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[1]);
}

#[tokio::test]
async fn a_deleted_consumer_ends_the_subscription_and_is_made_again() {
    let place = Place::new(LATEST).await;
    let source = NatsSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    assert!(subscription.next().now_or_never().is_none());
    place.stream().await.delete_consumer("billing").await.unwrap();
    let ended = tokio::time::timeout(SOON, subscription.next()).await.expect("told");
    assert_eq!(ended.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
    let ids = publish(&place, 1).await;
    let mut subscription = source.subscribe().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[0]);
}
