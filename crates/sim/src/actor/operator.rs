//! The operator: requeues, discards and reaps now and then; retention purges.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Admin, Effect, Filter, Lanes, Leases, Purging, ReapRequest, Selection, SelectionRequest, Steps, Store,
};
use pillarbox_core::{EventId, Result};
use pillarbox_engine::{Retention, RetentionOptions};

use super::super::chaos::{ChaosLanes, ChaosStore, Gate, RecordingAdmin};
use super::super::fault::Fault;
use super::super::rng::Rng;
use super::super::world::World;

/// How long an operator waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn operate(world: &World) {
    let mut rng = world.rng.fork("operator");
    let inner: Arc<dyn Admin> = Arc::new(world.store.clone());
    let admin: Arc<dyn Admin> = Arc::new(RecordingAdmin::new(inner, world.chaos.clone()));
    while !world.chaos.is_healed() {
        let wait = rng.millis(500..=8_000);
        world.chaos.sleep(wait).await;
        if let Err(error) = act(world, &admin, &mut rng).await {
            world.broken("operator", error.to_string());
        }
    }
}

async fn act(world: &World, admin: &Arc<dyn Admin>, rng: &mut Rng) -> Result<()> {
    let chaos = &world.chaos;
    if chaos.draws(rng, Fault::Requeue)
        && let Some(request) = some_dead(&**admin, rng).await?
    {
        chaos.strike(Fault::Requeue);
        let _ = admin.requeue(request).await?;
    }
    if chaos.draws(rng, Fault::Discard)
        && let Some(request) = some_dead(&**admin, rng).await?
    {
        chaos.strike(Fault::Discard);
        let _ = admin.discard(request).await?;
    }
    if chaos.strikes(rng, Fault::Reap) {
        reap(world, rng).await;
    }
    if chaos.draws(rng, Fault::Purge) {
        let mut options = RetentionOptions::default();
        options.delivered = rng.millis(0..=20_000);
        options.batch = rng.between_u32(1..=20);
        let purging = Purging { admin: Arc::clone(admin), sagas: None };
        if Retention::of(purging, options)?.run_once().await? > 0 {
            chaos.strike(Fault::Purge);
        }
    }
    Ok(())
}

/// About half of the dead entries; `None` when there are none.
async fn some_dead(admin: &dyn Admin, rng: &mut Rng) -> Result<Option<SelectionRequest>> {
    let dead = admin.list(Filter::dead().limit(LIST_MAX)).await?;
    let ids: Vec<EventId> = dead.iter().filter(|_| rng.permille(500)).map(|entry| entry.event_id).collect();
    let request = SelectionRequest {
        limit: None,
        selection: Selection::Ids(ids.clone()),
        actor: "operator".into(),
        effect: Effect::Apply,
        now: None,
    };
    Ok((!ids.is_empty()).then_some(request))
}

/// Like `pillarbox reap`: through the same weather as the relays, and without their patience.
async fn reap(world: &World, rng: &mut Rng) {
    let store = ChaosStore::new(
        world.store_below(),
        world.store.clone(),
        world.chaos.clone(),
        Gate::default(),
        "operator",
        rng.fork("reap"),
    );
    let request = ReapRequest {
        route: None,
        limit: rng.between_u32(1..=100),
        leases: Leases::Ended,
        max_attempts: Some(world.plan.options.max_attempts),
        steps: Steps::Take,
        owner: "operator".into(),
        effect: Effect::Apply,
        now: None,
    };
    // Whether it was done is in the history; the operator who did not get an answer tries again some day.
    if world.plan.lanes.is_some() && (world.plan.mix.is_none() || rng.fork("by").permille(500)) {
        // By lanes sessions are buried by those who read them: what that did is told by their signs of life.
        let (gate, rng) = (Gate::default(), rng.fork("reap"));
        let below = (world.lanes_below(), world.store.clone(), world.chaos.clone());
        let lanes = ChaosLanes::new(below.0, below.1, below.2, gate, "operator", rng);
        let _ = tokio::time::timeout(PATIENCE, lanes.reap_rows(request)).await;
    } else {
        let _ = tokio::time::timeout(PATIENCE, store.reap(request)).await;
    }
    let _ = rng.next_u64();
}
