//! The supervisor of one relay: starts it, kills it, stops it, and starts it again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::Result;
use pillarbox_core::port::{Sink, Store};
use pillarbox_engine::{Relay, Tally};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::super::chaos::{ChaosSink, ChaosStore, Ended, Gate, Supervised};
use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::super::world::{ROUTE, World};

/// What a relay may add to its grace while faults go on: calls that hang one after the other, and freezes.
const STORMY_STOP_EXTRA: Duration = Duration::from_secs(180);
/// What it may add when nothing goes wrong.
const CALM_STOP_EXTRA: Duration = Duration::from_secs(2);

pub(crate) async fn keep_relaying(world: &World, slot: u32) {
    let mut rng = world.rng.fork(&format!("relay-{slot}"));
    for life in 1_u32.. {
        let who: Arc<str> = format!("relay-{slot}.{life}").into();
        let gate = Gate::default();
        let relay = match build(world, &who, &gate, &mut rng) {
            Ok(relay) => relay,
            Err(error) => return world.broken("plan", error.to_string()),
        };
        world.started(slot, &who, relay.handle(), gate.clone());
        world.chaos.record_as(&who, Happened::Started);
        let stop = Notify::new();
        let ended = {
            let run = AssertUnwindSafe(relay.run(stop.notified())).catch_unwind();
            watch(world, &who, &mut rng, &stop, &gate, Supervised::new(run, gate.clone())).await
        };
        note_end(world, &who, ended);
        if world.is_closing() {
            return;
        }
        let wait = rng.millis(0..=6_000);
        world.chaos.sleep(wait).await;
    }
}

fn build(world: &World, who: &Arc<str>, gate: &Gate, rng: &mut Rng) -> Result<Relay> {
    let chaos = &world.chaos;
    let mut store: Arc<dyn Store> = Arc::new(ChaosStore::new(
        world.store_below(),
        Arc::new(world.store.clone()),
        chaos.clone(),
        gate.clone(),
        who,
        rng.fork("store"),
    ));
    let mut sink: Arc<dyn Sink> = Arc::new(ChaosSink::new(
        Arc::new(world.sink.clone()),
        chaos.clone(),
        gate.clone(),
        who,
        rng.fork("sink"),
        world.rng.fork("poison"),
    ));
    if let Some(mutant) = world.plan.mutant {
        store = mutant.store_above(store);
        sink = mutant.sink_above(sink);
    }
    let (told, teller) = (chaos.clone(), Arc::clone(who));
    Relay::builder(store, sink)
        .route(ROUTE)
        .options(world.plan.options.clone())
        .owner(&**who)
        .seed(rng.next_u64())
        .on_death(move |death| told.record_as(&teller, Happened::DeathTold { id: death.event_id }))
        .build()
}

type Outcome = std::result::Result<Result<Tally>, Box<dyn std::any::Any + Send>>;

/// Runs a relay to its end, whichever end that is.
async fn watch(
    world: &World,
    who: &Arc<str>,
    rng: &mut Rng,
    stop: &Notify,
    gate: &Gate,
    running: Supervised<impl Future<Output = Outcome>>,
) -> Ended<Outcome> {
    let mut running = std::pin::pin!(running);
    let mut fate_at = Instant::now() + rng.millis(100..=20_000);
    let mut stop_by: Option<Instant> = None;
    let begin_stop = || {
        world.chaos.record_as(who, Happened::Stopping);
        stop.notify_one();
        let calm = world.plan.options.grace + world.plan.call_max() + CALM_STOP_EXTRA;
        let extra = if world.chaos.is_healed() { Duration::ZERO } else { STORMY_STOP_EXTRA };
        Some(Instant::now() + calm + extra)
    };
    loop {
        tokio::select! {
            biased;
            ended = &mut running => return ended,
            () = world.closing(), if stop_by.is_none() => stop_by = begin_stop(),
            () = sleep_until(fate_at), if stop_by.is_none() => {
                if world.chaos.strikes(rng, Fault::Crash) {
                    gate.kill();
                } else if world.chaos.strikes(rng, Fault::Stop) {
                    stop_by = begin_stop();
                }
                fate_at = Instant::now() + rng.millis(100..=20_000);
            }
            () = sleep_until(stop_by.unwrap_or(fate_at)), if stop_by.is_some() => {
                world.broken("F-02", format!("{who} was asked to stop and did not"));
                gate.kill();
                stop_by = Some(Instant::now() + STORMY_STOP_EXTRA);
            }
        }
    }
}

fn note_end(world: &World, who: &Arc<str>, ended: Ended<Outcome>) {
    let stopped = |error| world.chaos.record_as(who, Happened::Stopped { error });
    match ended {
        Ended::Returned(Ok(Ok(_tally))) => stopped(None),
        Ended::Returned(Ok(Err(error))) => stopped(Some(error.to_string())),
        Ended::Returned(Err(_panic)) => world.broken("F-05", format!("{who} panicked")),
        Ended::Killed => world.chaos.record_as(who, Happened::Crashed),
        Ended::Spun => world.broken("I-15", format!("{who} spins: it works on and on without time moving")),
    }
}
