//! What a sink reports of a batch when the wire fails.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::{Entry, Outcome};

use super::harness::{FaultHarness, FaultInput, Timeouts};
use crate::case::skip;
use crate::delivery::{
    SOON, all_confirmed, assert_outcome, confirm, deliver, deliver_one, down, entries, ids,
};
use pillarbox_testkit::eventually;
use pillarbox_testkit::{Direction, Fault};

/// It is unknown whether the message arrived. The silent connection is not used again: from then on no
/// attempt is spent.
pub async fn a_withheld_confirmation_is_told_and_the_next_delivery_finds_out_why<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    let told = world.harness.told();
    let sink = world.sink(Timeouts::connect(300).confirm(300));
    let batch = entries(5);
    confirm(&*sink, &batch[..1]).await;
    world.proxy.set(Fault::BlackHole(Direction::ToClient));
    for outcome in deliver(&*sink, &batch).await {
        assert_outcome(&outcome, told.withheld);
    }
    if told.asks {
        for outcome in deliver(&*sink, &batch).await {
            let code = down(&outcome).code();
            assert!(told.silent.ends_with(code) || told.unreachable.ends_with(code), "{outcome:?}");
        }
    }
    world.proxy.heal();
    confirm(&*sink, &batch).await;
    world.check_arrived(&batch, &*sink).await;
}

/// What was confirmed is there. What was not is unknown or down, and the next delivery brings it.
pub async fn a_batch_that_is_cut_in_the_middle_reports_each_entry_and_loses_none<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    let sink = world.sink(Timeouts::default());
    let batch = entries(500);
    confirm(&*sink, &batch[..1]).await;
    world.proxy.set(Fault::CutAfter { direction: Direction::ToServer, bytes: 60_000 });
    let outcomes = deliver(&*sink, &batch).await;
    world.proxy.heal();
    let received: BTreeSet<_> = world.harness.received().await.into_iter().collect();
    let mut again: Vec<Entry> = Vec::new();
    for (entry, outcome) in batch.iter().zip(&outcomes) {
        match outcome {
            Outcome::Confirmed => assert!(received.contains(&entry.event_id), "confirmed and not there"),
            Outcome::Unknown(_) | Outcome::Down(_) => again.push(entry.clone()),
            other => panic!("{other:?}"),
        }
    }
    assert!(world.proxy.broken() > 0, "nothing was cut");
    assert!(!again.is_empty() || world.harness.told().repeats, "confirmed without an answer");
    confirm(&*sink, &again).await;
    world.check_arrived(&batch, &*sink).await;
}

/// Delivers a batch that is written and not confirmed when the fault comes.
async fn deliver_into<H: FaultHarness>(
    world: &FaultInput<H>,
    sink: &dyn pillarbox_core::port::Sink,
    batch: &[Entry],
    fault: impl FnOnce(),
) -> Vec<Outcome> {
    confirm(sink, &batch[..1]).await;
    world.proxy.set(Fault::BlackHole(Direction::ToClient));
    let sent = world.proxy.forwarded(Direction::ToServer);
    let meanwhile = async {
        eventually(SOON, async || world.proxy.forwarded(Direction::ToServer) > sent).await;
        fault();
    };
    tokio::join!(deliver(sink, batch), meanwhile).0
}

/// The server answers again at once: one of the messages may have ended the connection.
pub async fn a_connection_lost_after_writing_is_unknown_where_the_server_is_still_there<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    let sink = world.sink(Timeouts::default());
    let told = world.harness.told();
    // As many as are written in one piece: to a sink with more connections than one, a single message.
    let batch = entries(if told.asks { told.together } else { 1 });
    let cut = || {
        world.proxy.set(Fault::Cut);
        world.proxy.heal();
    };
    let outcomes = deliver_into(world, &*sink, &batch, cut).await;
    if told.repeats {
        all_confirmed(&outcomes);
        assert_eq!(world.harness.received().await.len(), batch.len() + 1, "the server wrote a repetition");
        return;
    }
    for outcome in &outcomes {
        assert_outcome(outcome, told.lost);
    }
    confirm(&*sink, &batch).await;
    world.check_arrived(&batch, &*sink).await;
}

/// The server does not answer any more: that is an outage, not a fault of a message.
pub async fn a_server_that_goes_down_under_a_batch_spends_no_attempt<H: FaultHarness>(world: &FaultInput<H>) {
    if !world.harness.told().asks {
        return skip("the sink does not ask whether the server is still there");
    }
    let sink = world.sink(Timeouts::default());
    let batch = entries(50);
    let outcomes = deliver_into(world, &*sink, &batch, || world.proxy.set(Fault::Down)).await;
    for outcome in &outcomes {
        assert_outcome(outcome, world.harness.told().unreachable);
    }
    world.proxy.heal();
    confirm(&*sink, &batch).await;
    world.check_arrived(&batch, &*sink).await;
}

/// Noticed before the message was written (then it may be down) or after it: never lost, never called delivered.
pub async fn an_idle_connection_that_is_cut_is_opened_again_unnoticed<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    let sink = world.sink(Timeouts::default());
    let batch = entries(2);
    confirm(&*sink, &batch[..1]).await;
    world.proxy.set(Fault::Cut);
    eventually(SOON, async || world.proxy.broken() > 0).await;
    let outcome = deliver_one(&*sink, &batch[1]).await;
    if outcome != Outcome::Confirmed {
        assert!(matches!(outcome, Outcome::Unknown(_) | Outcome::Down(_)), "{outcome:?}");
        confirm(&*sink, &batch[1..]).await;
    }
    world.check_arrived(&batch, &*sink).await;
}

/// Each entry gets the reason, so that an operator sees which server was meant.
pub async fn nobody_who_listens_is_down_for_every_entry<H: FaultHarness>(world: &FaultInput<H>) {
    let sink = world.sink(Timeouts::default());
    world.proxy.set(Fault::Down);
    let address = world.proxy.address().to_string();
    for outcome in deliver(&*sink, &entries(3)).await {
        let told = world.harness.told();
        let failure = assert_outcome(&outcome, told.unreachable);
        assert!(failure.text().contains(&address) || !told.names_server, "{failure}");
    }
}

/// The server accepts connections and does not answer.
pub async fn many_deliveries_that_find_nobody_share_one_attempt_to_connect<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    if !world.harness.told().asks {
        return skip("the sink has more than one connection");
    }
    let sink = world.sink(Timeouts::connect(500));
    world.proxy.set(Fault::BlackHole(Direction::Both));
    let batch = entries(1);
    let all = join_all((0..50).map(|_| deliver_one(&*sink, &batch[0])));
    let outcomes = tokio::time::timeout(Duration::from_secs(30), all).await.expect("one after the other");
    for outcome in &outcomes {
        assert_outcome(outcome, world.harness.told().silent);
    }
    let (accepted, most) = (world.proxy.accepted(), world.harness.told().connections_max);
    assert!(accepted <= most, "{accepted} connections, and {most} are enough");
}

/// Deliveries come all the time, and each is dropped before an attempt to connect would end, as with a short
/// `publish_timeout`. Somebody must find out that the server is down, or else each of them spends an attempt.
pub async fn a_server_that_hangs_is_found_out_by_deliveries_with_little_time<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    if !world.harness.told().asks {
        return skip("the sink has more than one connection");
    }
    let sink = world.sink(Timeouts::connect(1000));
    let batch = entries(1);
    confirm(&*sink, &batch).await;
    world.proxy.set(Fault::BlackHole(Direction::Both));
    let (little, pace) = (Duration::from_millis(400), Duration::from_millis(100));
    let mut under_way = FuturesUnordered::new();
    let found = async {
        loop {
            under_way.push(tokio::time::timeout(little, deliver_one(&*sink, &batch[0])));
            let ended = async {
                while let Some(ended) = under_way.next().await {
                    if matches!(ended, Ok(Outcome::Down(_))) {
                        return;
                    }
                }
                std::future::pending().await
            };
            if tokio::time::timeout(pace, ended).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, found).await.expect("nobody found out that the server is down");
    drop(under_way);
    world.proxy.heal();
    confirm(&*sink, &batch).await;
}

/// As a relay drops it at `publish_timeout`.
pub async fn a_delivery_dropped_at_its_deadline_leaves_the_sink_usable<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    let sink = world.sink(Timeouts::default());
    let batch = entries(20);
    confirm(&*sink, &batch[..1]).await;
    world.proxy.set(Fault::BlackHole(Direction::ToClient));
    let deadline = Duration::from_millis(100);
    assert!(tokio::time::timeout(deadline, deliver(&*sink, &batch)).await.is_err());
    world.proxy.heal();
    confirm(&*sink, &batch).await;
    world.check_arrived(&batch, &*sink).await;
}

/// More than any buffer on the way holds.
pub async fn a_batch_beyond_every_buffer_stays_in_order<H: FaultHarness>(world: &FaultInput<H>) {
    if !world.harness.told().asks {
        return skip("the sink has more than one connection");
    }
    let batch = entries(10_000);
    confirm(&*world.sink(Timeouts::default()), &batch).await;
    assert!(world.harness.received().await == ids(&batch), "out of order");
}

/// The batch that was handed over first is written first, also while all wait for the connection.
pub async fn deliveries_that_wait_for_the_connection_are_written_in_their_order<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    if !world.harness.told().asks {
        return skip("the sink has more than one connection");
    }
    let (sink, batch) = (world.sink(Timeouts::default()), entries(1000));
    let outcomes = join_all(batch.chunks(100).map(|part| deliver(&*sink, part))).await;
    outcomes.iter().for_each(|outcomes| all_confirmed(outcomes));
    assert!(world.harness.received().await == ids(&batch), "out of order");
}
