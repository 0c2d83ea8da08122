//! The conductor: ends the faults, waits until the world is quiet, and closes it.

use std::time::Duration;

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
        let undrained = undrained(world);
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

fn undrained(world: &World) -> u64 {
    (world.undrained().len() + world.unended()) as u64
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
    let by_lanes = world.plan.lanes.map_or(Duration::ZERO, |_| time_by_lanes(world));
    let by_sagas = world.plan.sagas.map_or(Duration::ZERO, |_| time_by_sagas(world));
    longest
        + by_lanes
        + by_sagas
        + options.lease * 2
        + options.publish_timeout.unwrap_or_default().min(options.lease)
        + options.backoff.max()
        + options.circuit.max()
        + options.reap_interval * 2
        + options.poll_max
        + SLACK
}

/// The steps of a saga go one after the other, there and perhaps back, and an operator lets it go on in between.
fn time_by_sagas(world: &World) -> Duration {
    let options = &world.plan.options;
    let step = options.lease + options.backoff.max() + options.reap_interval + options.poll_max * 2;
    step * 14 + SLACK * 2
}

/// By lanes a session that died is buried when its lease ends by the database's clock, verdicts that could not be
/// recorded are given up after two leases, and the entries of a key go one after the other, with a poll between them.
fn time_by_lanes(world: &World) -> Duration {
    let options = &world.plan.options;
    let one_by_one = u32::try_from(world.undrained().len()).unwrap_or(u32::MAX);
    world.chaos.lane_lease_left() + options.lease * 4 + options.poll_min * 4 * one_by_one + SLACK
}
