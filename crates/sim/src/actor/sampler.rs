//! Looks at all rows at random moments, so that what is wrong only in between is found as well.

use super::super::history::{Happened, Row};
use super::super::world::World;

pub(crate) async fn sample(world: &World) {
    let mut rng = world.rng.fork("sampler");
    loop {
        let wait = rng.millis(500..=8_000);
        tokio::time::sleep(wait).await;
        sample_now(world);
    }
}

/// Looks at the relays' own account of themselves, often.
pub(crate) async fn watch_relays(world: &World) {
    let mut rng = world.rng.fork("watcher");
    loop {
        let wait = rng.millis(20..=300);
        tokio::time::sleep(wait).await;
        world.look_at_relays();
        world.look_at_sagas();
    }
}

pub(crate) fn sample_now(world: &World) {
    let rows = world.store.entries().iter().map(Row::from).collect();
    world.chaos.record("sampler", Happened::Sampled { rows });
}
