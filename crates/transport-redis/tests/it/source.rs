//! What only the groups of Redis do.

use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_conformance::delivery::{SOON, confirm, entries, fresh};
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, Received};
use pillarbox_testkit::eventually;
use pillarbox_transport_redis::{RedisSink, RedisSource};

use crate::harness::{OwnStream, REDIS, Server, VALKEY};

async fn publish(place: &OwnStream, count: usize) -> Vec<String> {
    let batch = entries(count);
    confirm(&RedisSink::new(&place.to()).unwrap(), &batch).await;
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
    RedisSource::new(url).unwrap().subscribe().await.map(drop).unwrap_err()
}

#[tokio::test]
async fn a_member_that_comes_back_begins_with_what_it_left() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
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
        let place = OwnStream::new(server).await;
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
async fn what_arrived_after_the_last_wait_is_given_back_too() {
    let place = OwnStream::new(VALKEY).await;
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
    let place = OwnStream::new(REDIS).await;
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
async fn what_was_parked_says_where_it_was() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let ids = publish(&place, 1).await;
        let source = RedisSource::new(&place.from("")).unwrap();
        assert!(source.capabilities().keeps_parked);
        let mut subscription = source.subscribe().await.unwrap();
        next(&mut subscription).await.receipt.park().await.unwrap();
        let original = place.stored().await.remove(0);
        let parked = place.stored_in(&format!("{}:parked", place.stream)).await.remove(0);
        assert_eq!(parked.text("ce-id").unwrap(), ids[0]);
        assert_eq!(parked.fields["data"], original.fields["data"]);
        assert_eq!(parked.text("parked-id").unwrap(), original.id);
        assert_eq!(parked.text("parked-group").unwrap(), "billing");
    }
}

#[tokio::test]
async fn what_cannot_be_parked_is_not_lost() {
    let place = OwnStream::new(REDIS).await;
    publish(&place, 1).await;
    place.ask(&["SET", &format!("{}:parked", place.stream), "7"]).await.unwrap();
    let source = RedisSource::new(&place.from("")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let refused = next(&mut subscription).await.receipt.park().await.unwrap_err();
    assert!(refused.to_string().contains("holds a string"), "{refused}");
    assert_eq!(place.pending().await, 1);
}

#[tokio::test]
async fn groups_do_not_share_the_entries() {
    let place = OwnStream::new(VALKEY).await;
    let one = RedisSource::new(&place.from("")).unwrap();
    let other = RedisSource::new(&place.from("").replacen("group=billing", "group=audit", 1)).unwrap();
    let ids = publish(&place, 2).await;
    for source in [one, other] {
        let mut subscription = source.subscribe().await.unwrap();
        let both = [id(&next(&mut subscription).await), id(&next(&mut subscription).await)];
        assert_eq!(both[..], ids);
    }
}

#[tokio::test]
async fn a_field_that_is_no_text_is_parked_with_all_its_bytes() {
    let place = OwnStream::new(REDIS).await;
    let mut foreign = redis::cmd("XADD");
    foreign.arg(&place.stream).arg("*").arg(&[0xff_u8, 0xfe][..]).arg("x").arg("data").arg("not an event");
    foreign.query_async::<String>(&mut place.commands.clone()).await.unwrap();
    let source = RedisSource::new(&place.from("")).unwrap();
    let message = next(&mut source.subscribe().await.unwrap()).await;
    assert_eq!(message.body, b"not an event");
    assert!(Received::decode(message.attributes, message.headers, message.body).is_err());
    message.receipt.park().await.unwrap();
    let parked = place.ask(&["XLEN", &format!("{}:parked", place.stream)]).await.unwrap();
    assert_eq!(parked, redis::Value::Int(1));
}

#[tokio::test]
async fn entries_that_were_trimmed_away_while_pending_do_not_come_again() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
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
        let place = OwnStream::new(server).await;
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
    let server = Server::start("requirepass secret").await;
    let error =
        subscribe_error(&format!("redis://:wrong@127.0.0.1:{}?stream=s&group=g", server.port())).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    let place = OwnStream::new(REDIS).await;
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
