//! Entries of one key: as one atomic batch where a stream takes batches, and one after the other elsewhere.

use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::future::join_all;
use pillarbox_conformance::delivery::{assert_outcome, busy, confirm, deliver, down, entry, ids, rejected};
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, Event, Outcome};
use pillarbox_testkit::{Direction, Fault, FaultProxy};
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, LATEST, OwnStream, Server, atomic, event_id, variable};

/// As many as are worth a batch.
const MANY: usize = 100;

/// An entry of a key, as a relay hands it over that keeps the order of keys.
fn ordered(key: &str, event: Event) -> Entry {
    let mut entry = entry(event.key(key));
    entry.lane = Some(7);
    entry
}

fn order(key: &str) -> Entry {
    ordered(key, Event::new("order.placed", "{}"))
}

fn hot(count: usize) -> Vec<Entry> {
    (0..count).map(|_| order("hot")).collect()
}

/// A stream that takes batches, and one of each server that does not.
async fn streams() -> [OwnStream; 3] {
    [OwnStream::atomic().await, OwnStream::new(LATEST).await, OwnStream::new(DEBIAN).await]
}

/// The same, each with another setting.
async fn streams_with(change: fn(Config) -> Config) -> [OwnStream; 2] {
    let batches = OwnStream::on(&variable(LATEST), |config| change(atomic(config))).await;
    [batches, OwnStream::on(&variable(DEBIAN), change).await]
}

/// The batch of a stored message, and its place there.
fn place_in_batch(message: &StreamMessage) -> Option<(String, usize)> {
    let id = message.headers.get("Nats-Batch-Id")?.to_string();
    Some((id, message.headers.get("Nats-Batch-Sequence").unwrap().as_str().parse().unwrap()))
}

/// Asserts that the stream holds these as one batch, one behind the other.
async fn assert_one_batch(place: &OwnStream, entries: &[Entry]) {
    let stored = place.stored().await;
    let first = stored.iter().position(|message| event_id(message) == entries[0].event_id).unwrap();
    let (id, _) = place_in_batch(&stored[first]).unwrap();
    for (n, (message, entry)) in stored[first..].iter().zip(entries).enumerate() {
        assert_eq!(event_id(message), entry.event_id);
        assert_eq!(place_in_batch(message), Some((id.clone(), n + 1)));
    }
}

/// Asserts that these came by themselves.
async fn assert_no_batch(place: &OwnStream, entries: &[Entry]) {
    let ids = ids(entries);
    let stored = place.stored().await;
    let mine: Vec<_> = stored.iter().filter(|message| ids.contains(&event_id(message))).collect();
    assert_eq!(mine.len(), ids.len());
    assert!(mine.iter().all(|message| place_in_batch(message).is_none()));
}

/// The first so many are confirmed, then one is not, and nothing behind it was tried.
#[track_caller]
fn stopped_at(outcomes: &[Outcome], confirmed: usize) -> &Outcome {
    assert!(outcomes[..confirmed].iter().all(|outcome| *outcome == Outcome::Confirmed), "{outcomes:?}");
    assert!(outcomes[confirmed + 1..].iter().all(|outcome| *outcome == Outcome::Untried), "{outcomes:?}");
    &outcomes[confirmed]
}

#[tokio::test]
async fn a_stream_that_takes_batches_stores_a_hot_key_as_one_and_others_get_single_messages() {
    let [batches, latest, debian] = streams().await;
    let batch: Vec<Entry> =
        (0..500).map(|n| if n % 3 == 0 { order(&format!("k-{n}")) } else { order("hot") }).collect();
    let of_key: Vec<Entry> =
        batch.iter().filter(|entry| entry.key.as_deref() == Some("hot")).cloned().collect();
    for place in [&batches, &latest, &debian] {
        confirm(&NatsSink::new(&place.to()).unwrap(), &batch).await;
        let (stored, wanted) = (place.stored_ids().await, ids(&of_key));
        assert_eq!(stored.len(), 500);
        let stored: Vec<_> = stored.into_iter().filter(|id| wanted.contains(id)).collect();
        assert_eq!(stored, wanted);
    }
    // The first one tells how long a confirmation takes.
    assert_one_batch(&batches, &of_key[1..]).await;
    assert_no_batch(&batches, &of_key[..1]).await;
    let others: Vec<Entry> =
        batch.iter().filter(|entry| entry.key.as_deref() != Some("hot")).cloned().collect();
    assert_no_batch(&batches, &others).await;
    assert_no_batch(&latest, &batch).await;
    assert_no_batch(&debian, &batch).await;
}

#[tokio::test]
async fn a_few_entries_of_a_key_are_not_worth_a_batch() {
    let place = OwnStream::atomic().await;
    let batch = hot(3);
    confirm(&NatsSink::new(&place.to()).unwrap(), &batch).await;
    assert_eq!(place.stored_ids().await, ids(&batch));
    assert_no_batch(&place, &batch).await;
}

/// The stream refuses it. Our own limit is far above.
#[tokio::test]
async fn an_entry_that_the_stream_finds_too_large_stops_only_what_is_behind_it_in_its_key() {
    for place in streams_with(|config| Config { max_message_size: 2000, ..config }).await {
        let sink = NatsSink::new(&place.to()).unwrap();
        let mut batch = hot(MANY);
        batch[MANY / 2] = ordered("hot", Event::new("order.placed", vec![b'x'; 2000]));
        batch.extend([order("cold"), order("cold")]);
        let outcomes = deliver(&sink, &batch).await;
        assert_eq!(rejected(stopped_at(&outcomes[..MANY], MANY / 2)).code(), "too_large");
        assert_eq!(outcomes[MANY..], [Outcome::Confirmed, Outcome::Confirmed]);
        let stored = place.stored_ids().await;
        let stored: Vec<_> = stored.into_iter().filter(|id| ids(&batch[..MANY]).contains(id)).collect();
        assert_eq!(stored, ids(&batch[..MANY / 2]));
    }
}

/// Over the server's limit, by its payload or by its headers: that is known before anything is sent.
#[tokio::test]
async fn what_the_server_cannot_take_ends_a_batch_before_it() {
    let padded = (0..300).fold(Event::new("order.placed", vec![b'x'; 1000 * 1024]), |event, n| {
        event.header(format!("h{n}"), "y".repeat(200))
    });
    for large in [Event::new("order.placed", vec![b'x'; 1024 * 1024]), padded] {
        let place = OwnStream::atomic().await;
        let sink = NatsSink::new(&place.to()).unwrap();
        let mut batch = hot(MANY);
        batch[MANY / 2] = ordered("hot", large);
        let outcomes = deliver(&sink, &batch).await;
        assert_eq!(rejected(stopped_at(&outcomes, MANY / 2)).code(), "too_large");
        assert_eq!(place.stored_ids().await, ids(&batch[..MANY / 2]));
        assert_one_batch(&place, &batch[1..MANY / 2]).await;
    }
}

#[tokio::test]
async fn a_full_stream_takes_what_it_has_room_for_and_nothing_behind_it() {
    let full = |config| Config { max_messages: 60, discard: DiscardPolicy::New, ..config };
    for place in streams_with(full).await {
        let sink = NatsSink::new(&place.to()).unwrap();
        let batch = hot(MANY);
        let outcomes = deliver(&sink, &batch).await;
        assert_eq!(busy(stopped_at(&outcomes, 60)).code(), "stream_full");
        assert_eq!(place.stored_ids().await, ids(&batch[..60]));
    }
}

#[tokio::test]
async fn an_id_that_the_stream_knows_already_is_no_failure_of_its_batch() {
    for place in streams().await {
        for known in [0..40, 50..51, MANY - 1..MANY] {
            let sink = NatsSink::new(&place.to()).unwrap();
            let batch = hot(MANY);
            place.stream().await.purge().await.unwrap();
            confirm(&sink, &batch[known]).await;
            confirm(&sink, &batch).await;
            let mut stored = place.stored_ids().await;
            stored.sort_unstable();
            let mut wanted = ids(&batch);
            wanted.sort_unstable();
            assert_eq!(stored, wanted, "each is stored once");
        }
    }
}

/// The first entry is confirmed. The batch of the others is written, and the connection ends within its answer.
#[tokio::test]
async fn a_batch_whose_answer_is_lost_is_open_as_a_whole_and_is_not_stored_twice() {
    let place = OwnStream::atomic().await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    // The sink asks the stream, and this batch is refused: it does not learn how long one takes, so the next run has one.
    let known = hot(MANY);
    confirm(&sink, &known[MANY / 2..=MANY / 2]).await;
    confirm(&sink, &known).await;
    let batch = hot(MANY);
    proxy.set(Fault::CutAfter { direction: Direction::ToClient, bytes: 180 });
    let outcomes = deliver(&sink, &batch).await;
    proxy.heal();
    assert_eq!(outcomes[0], Outcome::Confirmed);
    // Down, if the proxy cuts the next connection too.
    let is_open = |outcome: &Outcome| matches!(outcome, Outcome::Unknown(_) | Outcome::Down(_));
    assert!(outcomes[1..].iter().all(is_open), "{outcomes:?}");
    assert_eq!(place.stored_ids().await[MANY..], ids(&batch), "it arrived");
    confirm(&sink, &batch[1..]).await;
    assert_eq!(place.stored_ids().await[MANY..], ids(&batch));
}

/// Only the first was written.
#[tokio::test]
async fn without_batches_only_the_first_of_a_key_is_unknown_and_nothing_behind_it_was_tried() {
    let place = OwnStream::new(DEBIAN).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&format!("{}?confirm_timeout=300ms", place.via(&through))).unwrap();
    confirm(&sink, &hot(1)).await;
    let batch = hot(MANY);
    proxy.set(Fault::BlackHole(Direction::ToClient));
    assert_outcome(stopped_at(&deliver(&sink, &batch).await, 0), "unknown/no_answer");
    proxy.heal();
    confirm(&sink, &batch).await;
    assert_eq!(place.stored_ids().await[1..], ids(&batch));
}

#[tokio::test]
async fn a_batch_that_is_cut_in_the_middle_leaves_nothing_behind() {
    let place = OwnStream::atomic().await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    confirm(&sink, &hot(1)).await;
    let batch = hot(500);
    proxy.set(Fault::CutAfter { direction: Direction::ToServer, bytes: 60_000 });
    let outcomes = deliver(&sink, &batch).await;
    proxy.heal();
    assert_eq!(outcomes[0], Outcome::Confirmed);
    for outcome in &outcomes[1..] {
        assert!(matches!(outcome, Outcome::Unknown(_) | Outcome::Down(_) | Outcome::Untried), "{outcome:?}");
    }
    assert_eq!(place.stored_ids().await[1..], ids(&batch[..1]), "a part of a batch is stored");
    confirm(&sink, &batch[1..]).await;
    assert_eq!(place.stored_ids().await[1..], ids(&batch));
}

#[tokio::test]
async fn a_connection_cut_among_single_messages_stops_a_key_there() {
    let place = OwnStream::new(DEBIAN).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    confirm(&sink, &hot(1)).await;
    let batch = hot(500);
    proxy.set(Fault::CutAfter { direction: Direction::ToServer, bytes: 60_000 });
    let outcomes = deliver(&sink, &batch).await;
    proxy.heal();
    let confirmed = outcomes.iter().take_while(|outcome| **outcome == Outcome::Confirmed).count();
    assert!((1..499).contains(&confirmed), "{confirmed} of 500 before the cut");
    let stopped = stopped_at(&outcomes, confirmed);
    assert!(matches!(stopped, Outcome::Unknown(_) | Outcome::Down(_)), "{stopped:?}");
    confirm(&sink, &batch[confirmed..]).await;
    assert_eq!(place.stored_ids().await[1..], ids(&batch));
}

/// One by one, a hundred would take twenty seconds.
#[tokio::test]
async fn over_a_slow_network_a_delivery_ends_before_its_key_does() {
    let place = OwnStream::new(DEBIAN).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    let batch = hot(MANY);
    proxy.set(Fault::Latency(Duration::from_millis(100)));
    let outcomes = deliver(&sink, &batch).await;
    proxy.heal();
    let confirmed = outcomes.iter().take_while(|outcome| **outcome == Outcome::Confirmed).count();
    assert!((1..MANY).contains(&confirmed), "{outcomes:?}");
    assert_eq!(*stopped_at(&outcomes, confirmed), Outcome::Untried);
    confirm(&sink, &batch[confirmed..]).await;
    assert_eq!(place.stored_ids().await, ids(&batch));
}

#[tokio::test]
async fn over_a_slow_network_every_run_is_worth_a_batch() {
    let place = OwnStream::atomic().await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    proxy.set(Fault::Latency(Duration::from_millis(50)));
    for _ in 0..3 {
        let batch = hot(MANY);
        confirm(&sink, &batch).await;
        assert_one_batch(&place, &batch[1..]).await;
    }
}

#[tokio::test]
async fn a_stream_that_changes_its_mind_about_batches_gets_what_it_takes() {
    let place = OwnStream::atomic().await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = NatsSink::new(&place.via(&through)).unwrap();
    let allow = async |allow_atomic_publish| {
        let config = place.stream().await.cached_info().config.clone();
        place.context.update_stream(Config { allow_atomic_publish, ..config }).await.unwrap();
    };
    let parts: Vec<Vec<Entry>> = (0..3).map(|_| hot(MANY)).collect();
    confirm(&sink, &parts[0]).await;
    allow(false).await;
    confirm(&sink, &parts[1]).await;
    allow(true).await;
    // Over another connection, the stream is asked again.
    proxy.set(Fault::Cut);
    let first = deliver(&sink, &parts[2]).await;
    if first.iter().any(|outcome| *outcome != Outcome::Confirmed) {
        confirm(&sink, &parts[2]).await;
    }
    assert_one_batch(&place, &parts[0][1..]).await;
    assert_no_batch(&place, &parts[1]).await;
    assert!(place_in_batch(place.stored().await.last().unwrap()).is_some());
    assert_eq!(place.stored_ids().await, ids(&parts.concat()));
}

#[tokio::test]
async fn subjects_of_one_stream_share_a_batch_and_those_of_another_have_their_own() {
    let (one, two) = (OwnStream::atomic().await, OwnStream::atomic().await);
    let sink = NatsSink::new(&format!("{}/{{type}}", one.server)).unwrap();
    let of =
        |place: &OwnStream, n: usize| ordered("hot", Event::new(format!("{}.{}", place.name, n % 7), "{}"));
    let batch: Vec<Entry> = (0..3 * MANY).map(|n| of(if n / MANY == 1 { &two } else { &one }, n)).collect();
    confirm(&sink, &batch).await;
    assert_one_batch(&one, &batch[1..MANY]).await;
    assert_one_batch(&two, &batch[MANY..2 * MANY]).await;
    assert_eq!(one.stored_ids().await, [ids(&batch[..MANY]), ids(&batch[2 * MANY..])].concat());
}

const USERS: &str = "jetstream { store_dir: \"DATA\" }
    authorization { users: [
      { user: admin, password: admin }
      { user: app, password: secret, permissions: { publish: { deny: [\"*.events.denied\"] } } }
      { user: blind, password: secret, permissions: { publish: { deny: [\"$JS.API.>\"] } } }
    ] }";

#[tokio::test]
async fn a_forbidden_subject_stops_its_key_and_what_is_before_it_is_stored() {
    let server = Server::start_latest(USERS).await;
    let place = OwnStream::on(&server.url().replace("//", "//admin:admin@"), atomic).await;
    let app = server.url().replace("//", "//app:secret@");
    let sink = NatsSink::new(&place.via(&app)).unwrap();
    for at in [MANY / 2, MANY - 1] {
        let mut batch = hot(MANY);
        batch[at] = ordered("hot", Event::new("denied", "{}"));
        let before = place.stored().await.len();
        let outcomes = deliver(&sink, &batch).await;
        assert_eq!(down(stopped_at(&outcomes, at)).code(), "denied");
        assert_eq!(place.stored_ids().await[before..], ids(&batch[..at]));
    }
}

/// It may publish and not ask.
#[tokio::test]
async fn a_user_who_may_not_ask_about_streams_publishes_one_by_one() {
    let server = Server::start_latest(USERS).await;
    let place = OwnStream::on(&server.url().replace("//", "//admin:admin@"), atomic).await;
    let sink = NatsSink::new(&place.via(&server.url().replace("//", "//blind:secret@"))).unwrap();
    let batch = hot(MANY);
    confirm(&sink, &batch).await;
    assert_eq!(place.stored_ids().await, ids(&batch));
    assert_no_batch(&place, &batch).await;
}

#[tokio::test]
async fn a_server_with_lower_limits_gets_batches_that_fit() {
    let limits = "jetstream { store_dir: \"DATA\", limits { batch { max_msgs: 60 } } }";
    let server = Server::start_latest(limits).await;
    let place = OwnStream::on(&server.url(), atomic).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let parts: Vec<Vec<Entry>> = (0..3).map(|_| hot(MANY)).collect();
    for part in &parts {
        confirm(&sink, part).await;
    }
    assert_eq!(place.stored_ids().await, ids(&parts.concat()));
    assert_no_batch(&place, &parts[0]).await;
    assert_one_batch(&place, &parts[1][1..MANY / 2]).await;
}

/// The server allows one at a time, and ten sinks want one.
#[tokio::test]
async fn batches_beyond_what_the_server_allows_at_once_go_one_by_one() {
    let limits = "jetstream { store_dir: \"DATA\", limits { batch { max_inflight_per_stream: 1 } } }";
    let server = Server::start_latest(limits).await;
    let place = OwnStream::on(&server.url(), atomic).await;
    let parts: Vec<Vec<Entry>> = (0..10).map(|_| hot(MANY)).collect();
    let sinks: Vec<NatsSink> = parts.iter().map(|_| NatsSink::new(&place.to()).unwrap()).collect();
    join_all(sinks.iter().zip(&parts).map(|(sink, part)| confirm(sink, part))).await;
    let stored = place.stored_ids().await;
    assert_eq!(stored.len(), 10 * MANY);
    for part in parts {
        let wanted = ids(&part);
        let stored: Vec<_> = stored.iter().copied().filter(|id| wanted.contains(id)).collect();
        assert_eq!(stored, wanted);
    }
}

#[tokio::test]
async fn only_streams_keep_the_order_of_keys() {
    let place = OwnStream::new(DEBIAN).await;
    assert!(NatsSink::new(&place.to()).unwrap().capabilities().ordered_prefix);
    let core = place.to().replacen("nats://", "nats+core://", 1);
    assert!(!NatsSink::new(&core).unwrap().capabilities().ordered_prefix);
}
