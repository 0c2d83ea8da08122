//! The conductor: ends the faults, waits until the world is quiet, and closes it.

use std::time::Duration;

use pillarbox_core::port::Admin;
use tokio::time::Instant;

use super::super::history::Happened;
use super::super::world::World;

/// What deliveries, polls and restarts may take once nothing goes wrong any more.
const SLACK: Duration = Duration::from_secs(20);
/// How long the idle world is watched for calls that nobody needs.
const IDLE_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(crate) async fn conduct(world: &World) {
    tokio::time::sleep(world.plan.stormy_for).await;
    world.produced().await;
    world.chaos.heal();
    world.thaw_all();
    let bound = time_to_quiet(world);
    let deadline = Instant::now() + bound;
    let undrained = loop {
        let undrained = undrained(world).await;
        if undrained == 0 || Instant::now() > deadline {
            break undrained;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    if undrained > 0 {
        world.broken(
            "I-13",
            format!("{undrained} entries are still not at their end {bound:?} after the faults"),
        );
    }
    world.chaos.record("world", Happened::Quiet { undrained });
    if undrained == 0 {
        // A relay that finds nothing to do is quiet, holds nothing and calls itself healthy.
        tokio::time::sleep(world.plan.calming_down() + IDLE_FOR).await;
        world.look_at_idle_relays();
    }
    world.close();
}

async fn undrained(world: &World) -> u64 {
    let counts = world.store.counts(None).await.unwrap_or_default();
    counts.iter().map(pillarbox_core::port::RouteCounts::undrained).sum()
}

/// The longest that it may take from here, by the policy of the relays. After the faults every delivery works, so
/// each entry needs one more, when it is due: at the latest after the waits that stand in its row now, one more
/// lease for a claim whose answer was lost, a reap, and an open circuit. What was under way may fail once more.
fn time_to_quiet(world: &World) -> Duration {
    let options = &world.plan.options;
    let now = world.store.clock().now();
    let waits = world.store.entries();
    let waits = waits.iter().filter(|entry| !entry.status.is_terminal()).filter_map(|entry| entry.due_at);
    let longest = waits.map(|due| due.since(now)).max().unwrap_or_default();
    longest
        + options.lease * 2
        + options.publish_timeout.unwrap_or_default().min(options.lease)
        + options.backoff.max()
        + options.circuit.max()
        + options.reap_interval * 2
        + options.poll_max
        + SLACK
}
