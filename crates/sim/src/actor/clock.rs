//! Whoever sets the database's clock.

use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::world::World;

/// How far the clock may go from where it began: what an operator would still take for a clock.
const AHEAD_MAX_MILLIS: i64 = 120_000;
const BEHIND_MAX_MILLIS: i64 = 30_000;

pub(crate) async fn meddle_with_the_clock(world: &World) {
    let mut rng = world.rng.fork("clock");
    while !world.chaos.is_healed() {
        let wait = rng.millis(500..=10_000);
        world.chaos.sleep(wait).await;
        let offset = world.chaos.clock().offset_millis();
        let ahead = i64::try_from(rng.between(50..=40_000)).unwrap_or(0);
        let back = i64::try_from(rng.between(50..=15_000)).unwrap_or(0);
        if offset + ahead <= AHEAD_MAX_MILLIS && world.chaos.strikes(&mut rng, Fault::ClockForward) {
            jump(world, ahead);
        }
        if offset - back >= -BEHIND_MAX_MILLIS && world.chaos.strikes(&mut rng, Fault::ClockBackward) {
            jump(world, -back);
        }
    }
}

fn jump(world: &World, millis: i64) {
    world.chaos.clock().jump(millis);
    world.chaos.record("clock", Happened::ClockJumped { millis });
}
