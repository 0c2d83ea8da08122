//! What a source promises: everything arrives, and what is not answered comes again.

use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, Event, Outcome, Received};
use pillarbox_testkit::{Fault, FaultProxy, eventually};
use pillarbox_transport_redis::{Options, RedisSink, RedisSource};

use crate::harness::{Place, REDIS, SOON, Server, VALKEY, deliver, entries, entry, fresh};

async fn publish(place: &Place, count: usize) -> Vec<String> {
    let batch = entries(count);
    let sink = RedisSink::new(&place.to()).unwrap();
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
    match RedisSource::new(url).unwrap().subscribe().await {
        Ok(_) => panic!("subscribed"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn what_was_published_arrives_whole_and_in_order() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let sent = entry(
            Event::new("order.placed", vec![0, 0xff, 13, 10])
                .key("k \u{fc}")
                .tenant("acme")
                .content_type("application/octet-stream")
                .header("shop", "north \u{2603}\n")
                .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        );
        deliver(&RedisSink::new(&place.to()).unwrap(), std::slice::from_ref(&sent)).await;
        let more = publish(&place, 200).await;
        let source = RedisSource::new(&place.from("")).unwrap();
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
        assert_eq!(place.pending().await, 0, "every answer was heard");
    }
}

#[tokio::test]
async fn what_comes_later_arrives_too() {
    let place = Place::new(REDIS).await;
    let source = RedisSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let (message, ids) = tokio::join!(next(&mut subscription), publish(&place, 1));
    assert_eq!(id(&message), ids[0]);
}

#[tokio::test]
async fn what_was_given_back_comes_again_and_is_counted() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let ids = publish(&place, 1).await;
        let source = RedisSource::new(&place.from("")).unwrap();
        let mut subscription = source.subscribe().await.unwrap();
        for count in 1..=4 {
            let message = next(&mut subscription).await;
            assert_eq!((id(&message), message.delivery_count), (ids[0].clone(), Some(count)));
            message.receipt.nack().await.unwrap();
        }
        next(&mut subscription).await.receipt.ack().await.unwrap();
        assert_eq!(place.pending().await, 0);
    }
}

#[tokio::test]
async fn what_was_given_back_waits_for_the_delay() {
    let place = Place::new(REDIS).await;
    publish(&place, 1).await;
    let source = RedisSource::new(&place.from("&nack_delay=1h&reclaim_after=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.nack().await.unwrap();
    let later = publish(&place, 1).await;
    assert_eq!(id(&next(&mut subscription).await), later[0], "others do not wait for it");
    assert!(subscription.next().now_or_never().is_none());
}

#[tokio::test]
async fn a_member_that_comes_back_begins_with_what_it_left() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let ids = publish(&place, 250).await;
        let url = place.from("&consumer=one&reclaim_after=1h&prefetch=300");
        let dead = RedisSource::new(&url).unwrap();
        let mut subscription = dead.subscribe().await.unwrap();
        next(&mut subscription).await.receipt.ack().await.unwrap();
        let held = next(&mut subscription).await;
        // Neither answered nor dropped, as by a process that was killed.
        std::mem::forget((held, subscription));
        let source = RedisSource::new(&url).unwrap();
        let mut subscription = source.subscribe().await.unwrap();
        for expected in &ids[1..] {
            let message = next(&mut subscription).await;
            assert_eq!((&id(&message), message.delivery_count), (expected, Some(2)));
            message.receipt.ack().await.unwrap();
        }
        assert_eq!(place.pending().await, 0);
    }
}

#[tokio::test]
async fn what_a_dead_member_left_is_taken_over_by_another() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let ids = publish(&place, 5).await;
        let dead = RedisSource::new(&place.from("&consumer=dead")).unwrap();
        let mut subscription = dead.subscribe().await.unwrap();
        let held = next(&mut subscription).await;
        std::mem::forget((held, subscription));
        let source = RedisSource::new(&place.from("&consumer=alive&reclaim_after=200ms")).unwrap();
        let mut subscription = source.subscribe().await.unwrap();
        for expected in &ids {
            let message = next(&mut subscription).await;
            assert_eq!((&id(&message), message.delivery_count), (expected, Some(2)));
            message.receipt.ack().await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_dropped_subscription_left_comes_again_at_once() {
    let place = Place::new(REDIS).await;
    let ids = publish(&place, 20).await;
    // Nothing but giving it back can make it come again within this test.
    let left = RedisSource::new(&place.from("&consumer=one&reclaim_after=1h")).unwrap();
    let mut subscription = left.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    next(&mut subscription).await.receipt.ack().await.unwrap();
    drop(held);
    drop(subscription);
    let source = RedisSource::new(&place.from("&consumer=two&reclaim_after=1h")).unwrap();
    // Let go of without waiting, they may still be on their way.
    let hour = Duration::from_secs(3600);
    eventually(SOON, async || {
        let waiting = place.waiting().await;
        waiting.len() == 19 && waiting.iter().all(|waited| *waited >= hour)
    })
    .await;
    let mut subscription = source.subscribe().await.unwrap();
    for expected in ids.iter().filter(|id| **id != ids[1]) {
        let message = next(&mut subscription).await;
        assert_eq!(id(&message), *expected);
        message.receipt.ack().await.unwrap();
    }
}

#[tokio::test]
async fn what_arrived_after_the_last_wait_is_given_back_too() {
    let place = Place::new(VALKEY).await;
    let left = RedisSource::new(&place.from("&consumer=one&reclaim_after=1h")).unwrap();
    let mut subscription = left.subscribe().await.unwrap();
    // Asks, and is dropped before anything is there.
    assert!(subscription.next().now_or_never().is_none());
    tokio::task::yield_now().await;
    let ids = publish(&place, 1).await;
    eventually(SOON, async || place.pending().await == 1).await;
    tokio::task::yield_now().await;
    drop(subscription);
    let hour = Duration::from_secs(3600);
    eventually(SOON, async || place.waiting().await.iter().all(|waited| *waited >= hour)).await;
    let source = RedisSource::new(&place.from("&consumer=two&reclaim_after=1h")).unwrap();
    let message = next(&mut source.subscribe().await.unwrap()).await;
    assert_eq!((id(&message), message.delivery_count), (ids[0].clone(), Some(2)));
}

#[tokio::test]
async fn what_is_still_being_handled_here_is_not_handed_out_again() {
    let place = Place::new(REDIS).await;
    let ids = publish(&place, 1).await;
    let source = RedisSource::new(&place.from("&consumer=one&reclaim_after=50ms")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(id(&held), ids[0]);
    // It is overdue, taken over by ourselves again and again, and left where it is; and so it is for a second one.
    let mut again = source.subscribe().await.unwrap();
    tokio::select! {
        _ = subscription.next() => panic!("handed out again"),
        _ = again.next() => panic!("handed out again"),
        () = eventually(SOON, async || place.deliveries().await == [5]) => {}
    }
    held.receipt.ack().await.unwrap();
    assert_eq!(place.pending().await, 0);
}

#[tokio::test]
async fn a_closed_subscription_has_given_back_what_nobody_saw() {
    let place = Place::new(VALKEY).await;
    let ids = publish(&place, 20).await;
    // Nothing but giving it back can make it come again within this test, and nothing is left that could do so later.
    let source = RedisSource::new(&place.from("&reclaim_after=1h&nack_delay=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(id(&held), ids[1]);
    subscription.close().await;
    std::mem::forget(held);
    drop((subscription, source));
    let source = RedisSource::new(&place.from("&reclaim_after=1h&nack_delay=1h")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let mut arrived = Vec::new();
    while arrived.len() < 18 {
        let message = next(&mut subscription).await;
        arrived.push(id(&message));
        message.receipt.ack().await.unwrap();
    }
    assert_eq!(arrived, ids[2..]);
}

#[tokio::test]
async fn what_was_parked_is_kept_and_never_comes_again() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let ids = publish(&place, 2).await;
        let source = RedisSource::new(&place.from("&reclaim_after=50ms")).unwrap();
        assert!(source.capabilities().keeps_parked);
        let mut subscription = source.subscribe().await.unwrap();
        next(&mut subscription).await.receipt.park().await.unwrap();
        let second = next(&mut subscription).await;
        assert_eq!(id(&second), ids[1]);
        second.receipt.ack().await.unwrap();
        assert_eq!(place.pending().await, 0);
        let original = place.stored().await.remove(0);
        let parked = place.stored_in(&format!("{}:parked", place.stream)).await;
        assert_eq!(parked.len(), 1);
        assert_eq!(parked[0].text("ce-id").unwrap(), ids[0]);
        assert_eq!(parked[0].fields["data"], original.fields["data"]);
        assert_eq!(parked[0].text("parked-id").unwrap(), original.id);
        assert_eq!(parked[0].text("parked-group").unwrap(), "billing");
    }
}

#[tokio::test]
async fn what_cannot_be_parked_is_not_lost() {
    let place = Place::new(REDIS).await;
    publish(&place, 1).await;
    place.ask(&["SET", &format!("{}:parked", place.stream), "7"]).await.unwrap();
    let source = RedisSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let refused = next(&mut subscription).await.receipt.park().await.unwrap_err();
    assert!(refused.to_string().contains("holds a string"), "{refused}");
    assert_eq!(place.pending().await, 1);
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let place = Place::new(REDIS).await;
    let source = RedisSource::new(&place.from("&prefetch=3")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let sink = RedisSink::new(&place.to()).unwrap();
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
async fn members_of_a_group_share_the_entries_and_groups_do_not() {
    let place = Place::new(VALKEY).await;
    let one = RedisSource::new(&place.from("&prefetch=1")).unwrap();
    let two = RedisSource::new(&place.from("&prefetch=1")).unwrap();
    let other = RedisSource::new(&place.from("").replacen("group=billing", "group=audit", 1)).unwrap();
    let (mut one, mut two) = (one.subscribe().await.unwrap(), two.subscribe().await.unwrap());
    let ids = publish(&place, 2).await;
    let (first, second) = tokio::join!(next(&mut one), next(&mut two));
    let mut arrived = [id(&first), id(&second)];
    arrived.sort();
    let mut expected = [ids[0].clone(), ids[1].clone()];
    expected.sort();
    assert_eq!(arrived, expected);
    let mut other = other.subscribe().await.unwrap();
    assert_eq!([id(&next(&mut other).await), id(&next(&mut other).await)], [ids[0].clone(), ids[1].clone()]);
}

#[tokio::test]
async fn an_entry_of_someone_else_is_no_event_and_can_be_parked() {
    let place = Place::new(REDIS).await;
    let mut foreign = redis::cmd("XADD");
    foreign.arg(&place.stream).arg("*").arg(&[0xff_u8, 0xfe][..]).arg("x").arg("data").arg("not an event");
    foreign.query_async::<String>(&mut place.commands.clone()).await.unwrap();
    let mut flooded = redis::cmd("XADD");
    flooded.arg(&place.stream).arg("*").arg("data").arg("flooded");
    (0..500).for_each(|n| {
        flooded.arg(format!("h-{n}")).arg("x");
    });
    flooded.query_async::<String>(&mut place.commands.clone()).await.unwrap();
    let ids = publish(&place, 1).await;
    let source = RedisSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    for body in ["not an event", "flooded"] {
        let message = next(&mut subscription).await;
        assert_eq!(message.body, body.as_bytes());
        assert!(Received::decode(message.attributes, message.headers, message.body).is_err());
        message.receipt.park().await.unwrap();
    }
    assert_eq!(id(&next(&mut subscription).await), ids[0], "the others are not held up");
    let parked = place.ask(&["XLEN", &format!("{}:parked", place.stream)]).await.unwrap();
    assert_eq!(parked, redis::Value::Int(2), "with all their bytes");
}

#[tokio::test]
async fn entries_that_were_trimmed_away_while_pending_do_not_come_again() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        publish(&place, 3).await;
        let url = place.from("&consumer=one&reclaim_after=1h");
        let mut subscription = RedisSource::new(&url).unwrap().subscribe().await.unwrap();
        std::mem::forget((next(&mut subscription).await, subscription));
        place.ask(&["XTRIM", &place.stream, "MAXLEN", "0"]).await.unwrap();
        let ids = publish(&place, 1).await;
        let mut subscription = RedisSource::new(&url).unwrap().subscribe().await.unwrap();
        assert_eq!(id(&next(&mut subscription).await), ids[0]);
    }
}

#[tokio::test]
async fn a_missing_group_is_not_found_and_named_unless_it_may_be_made() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let error = subscribe_error(&place.from("&create_group=false")).await;
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(
            error.to_string().contains(&place.stream) && error.to_string().contains("billing"),
            "{error}"
        );
        RedisSource::new(&place.from("")).unwrap().subscribe().await.unwrap();
        RedisSource::new(&place.from("&create_group=false")).unwrap().subscribe().await.unwrap();
    }
}

#[tokio::test]
async fn what_waiting_cannot_mend_is_told_apart_from_what_it_can() {
    let error = subscribe_error("redis://127.0.0.1:1?stream=orders&group=g").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let server = Server::start("requirepass secret").await;
    let error = subscribe_error(&format!("redis://:wrong@127.0.0.1:{}?stream=s&group=g", server.port)).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    let place = Place::new(REDIS).await;
    let user = fresh("user");
    place.ask(&["ACL", "SETUSER", &user, "on", ">pw", "~nothing", "+@all"]).await.unwrap();
    let url = place.from("").replacen("redis://", &format!("redis://{user}:pw@"), 1);
    let error = subscribe_error(&url).await;
    place.ask(&["ACL", "DELUSER", &user]).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("ACL"), "{error}");
    place.ask(&["SET", &place.stream, "7"]).await.unwrap();
    let error = subscribe_error(&place.from("")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("stream="), "{error}");
}

#[tokio::test]
async fn a_lost_connection_is_told_and_the_next_subscription_goes_on() {
    let place = Place::new(REDIS).await;
    let ids = publish(&place, 2).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let from = place.from("&consumer=one&reclaim_after=1h").replacen(&place.server, &through, 1);
    let source = RedisSource::with_options(Options::of_source(&from).unwrap()).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    assert!(subscription.next().now_or_never().is_none());
    proxy.set(Fault::Cut);
    let lost = tokio::time::timeout(SOON, subscription.next()).await.expect("told");
    assert_eq!(lost.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
    drop((held, subscription));
    let mut subscription = source.subscribe().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[1]);
}

#[tokio::test]
async fn a_deleted_group_ends_the_subscription_and_is_made_again() {
    let place = Place::new(VALKEY).await;
    let source = RedisSource::new(&place.from("&reclaim_after=100ms")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    assert!(subscription.next().now_or_never().is_none());
    place.ask(&["XGROUP", "DESTROY", &place.stream, "billing"]).await.unwrap();
    let ended = tokio::time::timeout(SOON, subscription.next()).await.expect("told");
    assert!(ended.is_err());
    let ids = publish(&place, 1).await;
    let mut subscription = source.subscribe().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[0]);
}
