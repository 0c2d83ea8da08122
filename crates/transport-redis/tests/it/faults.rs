//! What happens to a batch when the wire fails.

use std::time::Duration;

use pillarbox_core::Outcome;
use pillarbox_testkit::{Direction, Fault, FaultProxy, eventually};
use pillarbox_transport_redis::RedisSink;

use crate::harness::{Place, REDIS, SOON, VALKEY, deliver, deliver_one, down, entries};

#[tokio::test]
async fn a_withheld_confirmation_is_unknown_and_the_next_delivery_finds_out_why() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let url = format!("{}&confirm_timeout=300ms&connect_timeout=300ms", place.via(&through));
    let sink = RedisSink::new(&url).unwrap();
    let batch = entries(5);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    proxy.set(Fault::BlackHole(Direction::ToClient));
    for outcome in deliver(&sink, &batch).await {
        let Outcome::Unknown(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.code(), "no_answer");
    }
    // The silent connection is not used again, and nobody answers a new one: no attempt is spent from now on.
    for outcome in deliver(&sink, &batch).await {
        assert!(matches!(down(&outcome).code(), "no_answer" | "unreachable"), "{outcome:?}");
    }
    proxy.heal();
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(place.distinct().await.len(), 5);
}

#[tokio::test]
async fn a_batch_that_is_cut_in_the_middle_reports_each_entry_and_loses_none() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let (proxy, through) = FaultProxy::before(&place.server);
        let sink = RedisSink::new(&place.via(&through)).unwrap();
        let batch = entries(500);
        assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
        proxy.set(Fault::CutAfter { direction: Direction::ToServer, bytes: 60_000 });
        let outcomes = deliver(&sink, &batch).await;
        proxy.heal();
        let stored = place.stored_ids().await;
        for (entry, outcome) in batch.iter().zip(&outcomes) {
            match outcome {
                Outcome::Confirmed => assert!(stored.contains(&entry.event_id.to_string())),
                Outcome::Unknown(_) | Outcome::Down(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(outcomes.iter().any(|outcome| *outcome != Outcome::Confirmed), "nothing was cut");
        let again: Vec<_> = batch
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome != Outcome::Confirmed)
            .map(|(entry, _)| entry.clone())
            .collect();
        assert!(deliver(&sink, &again).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
        let sent = batch.iter().map(|entry| entry.event_id.to_string()).collect();
        assert!(place.distinct().await == sent, "some are missing");
    }
}

#[tokio::test]
async fn a_connection_lost_after_writing_is_unknown_where_the_server_is_still_there() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = RedisSink::new(&place.via(&through)).unwrap();
    let batch = entries(50);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    proxy.set(Fault::BlackHole(Direction::ToClient));
    let sent = proxy.forwarded(Direction::ToServer);
    let (outcomes, ()) = tokio::join!(deliver(&sink, &batch), async {
        eventually(SOON, async || proxy.forwarded(Direction::ToServer) > sent).await;
        proxy.set(Fault::Cut);
        proxy.heal();
    });
    for outcome in outcomes {
        let Outcome::Unknown(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.code(), "connection_lost");
    }
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(place.distinct().await.len(), 50);
}

#[tokio::test]
async fn a_server_that_goes_down_under_a_batch_spends_no_attempt() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = RedisSink::new(&place.via(&through)).unwrap();
    let batch = entries(50);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    // Written, but not confirmed, when the server goes.
    proxy.set(Fault::BlackHole(Direction::ToClient));
    let sent = proxy.forwarded(Direction::ToServer);
    let (outcomes, ()) = tokio::join!(deliver(&sink, &batch), async {
        eventually(SOON, async || proxy.forwarded(Direction::ToServer) > sent).await;
        proxy.set(Fault::Down);
    });
    outcomes.iter().for_each(|outcome| assert_eq!(down(outcome).code(), "unreachable"));
    proxy.heal();
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(place.distinct().await.len(), 50);
}

#[tokio::test]
async fn an_idle_connection_that_is_cut_is_opened_again_unnoticed() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = RedisSink::new(&place.via(&through)).unwrap();
    let batch = entries(2);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    proxy.set(Fault::Cut);
    eventually(SOON, async || proxy.broken() > 0).await;
    let outcome = deliver_one(&sink, &batch[1]).await;
    // Noticed in time, or not: never lost, never called delivered.
    if outcome != Outcome::Confirmed {
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        assert_eq!(deliver_one(&sink, &batch[1]).await, Outcome::Confirmed);
    }
    assert_eq!(place.distinct().await.len(), 2);
}

#[tokio::test]
async fn many_deliveries_that_find_nobody_share_one_attempt_to_connect() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let url = format!("{}&connect_timeout=500ms", place.via(&through));
    let sink = RedisSink::new(&url).unwrap();
    // Connections are accepted, and nobody answers.
    proxy.set(Fault::BlackHole(Direction::Both));
    let batch = entries(1);
    let all = futures_util::future::join_all((0..50).map(|_| deliver_one(&sink, &batch[0])));
    let outcomes = tokio::time::timeout(Duration::from_secs(30), all).await.expect("one after the other");
    outcomes.iter().for_each(|outcome| assert_eq!(down(outcome).code(), "no_answer"));
    assert!(proxy.accepted() <= 2, "{} connections", proxy.accepted());
}

#[tokio::test]
async fn a_delivery_dropped_at_its_deadline_leaves_the_sink_usable() {
    let place = Place::new(REDIS).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let sink = RedisSink::new(&place.via(&through)).unwrap();
    let batch = entries(20);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    proxy.set(Fault::BlackHole(Direction::ToClient));
    let deadline = Duration::from_millis(100);
    assert!(tokio::time::timeout(deadline, deliver(&sink, &batch)).await.is_err());
    proxy.heal();
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(place.distinct().await.len(), 20);
}
