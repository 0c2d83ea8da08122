//! The supervisor of one relay: starts it, kills it, stops it, and starts it again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::port::{Lanes, Sink, Store};
use pillarbox_core::{ErrorKind, Result};
use pillarbox_engine::{Relay, Tally};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::super::chaos::{ChaosLanes, ChaosSagas, ChaosSink, ChaosStore, Ended, Gate, Supervised};
use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::plan::Mix;
use super::super::rng::Rng;
use super::super::world::{ROUTE, World};
use super::saga;

/// What a relay may add to its grace while faults go on: calls that hang one after the other, and freezes.
const STORMY_STOP_EXTRA: Duration = Duration::from_secs(180);
/// What it may add when nothing goes wrong.
const CALM_STOP_EXTRA: Duration = Duration::from_secs(2);

pub(crate) async fn keep_relaying(world: &World, slot: u32) {
    let mut rng = world.rng.fork(&format!("relay-{slot}"));
    for life in 1_u32.. {
        let who: Arc<str> = format!("relay-{slot}.{life}").into();
        let gate = Gate::default();
        let (by_lanes, changes_at) = kind(world, slot, &rng);
        let relay = match build(world, &who, &gate, &mut rng, by_lanes) {
            Ok(relay) => relay,
            Err(error) => return world.broken("plan", error.to_string()),
        };
        world.started(slot, &who, relay.handle(), gate.clone());
        world.chaos.record_as(&who, Happened::Started { by_lanes });
        let stop = Notify::new();
        let mode = Mode::draw(world, &mut rng);
        let (ended, asked) = {
            let run = AssertUnwindSafe(mode.run(&relay, stop.notified())).catch_unwind();
            let process = Process { who: &who, stop: &stop, gate: &gate, changes_at };
            watch(world, &process, &mut rng, Supervised::new(run, gate.clone())).await
        };
        note_end(world, &who, ended, mode == Mode::Daemon && !asked);
        if world.is_closing() {
            return;
        }
        if mode == Mode::Daemon {
            let wait = rng.millis(0..=6_000);
            world.chaos.sleep(wait).await;
        } else {
            // The next cron job.
            let wait = rng.millis(50..=1_500);
            tokio::time::sleep(wait).await;
        }
    }
}

/// Whether the next relay of a slot goes by lanes, and when it is replaced by one of the other kind.
fn kind(world: &World, slot: u32, rng: &Rng) -> (bool, Option<Instant>) {
    let plan = &world.plan;
    let (alive, changes_at) = (world.chaos.clock().elapsed(), plan.changes_at(slot));
    let changed = alive >= changes_at;
    let replaced = (!changed).then(|| Instant::now() + (changes_at - alive));
    match plan.mix {
        None => (plan.lanes.is_some(), None),
        Some(Mix::AtOnce) => (rng.fork("kind").permille(500), None),
        Some(Mix::ToLanes) => (changed, replaced),
        Some(Mix::ToRows) => (!changed, replaced),
    }
}

/// How a relay is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Until it is told to stop.
    Daemon,
    /// Until nothing is due, again and again.
    Drain,
    /// One batch, again and again.
    Once,
}

impl Mode {
    fn draw(world: &World, rng: &mut Rng) -> Self {
        match rng.between(0..=9) {
            // Batch by batch a backlog may take longer than the world waits.
            0 if !world.chaos.is_healed() => Self::Once,
            1 | 2 => Self::Drain,
            _ => Self::Daemon,
        }
    }

    async fn run(self, relay: &Relay, stop: impl Future<Output = ()> + Send) -> Result<Tally> {
        match self {
            Self::Daemon => relay.run(stop).await,
            Self::Drain => relay.drain_until(stop).await,
            Self::Once => relay.run_once().await,
        }
    }
}

fn build(world: &World, who: &Arc<str>, gate: &Gate, rng: &mut Rng, by_lanes: bool) -> Result<Relay> {
    let chaos = &world.chaos;
    let mut store: Arc<dyn Store> = Arc::new(ChaosStore::new(
        world.store_below(),
        world.store.clone(),
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
    let mut lanes: Arc<dyn Lanes> = Arc::new(ChaosLanes::new(
        world.lanes_below(),
        world.store.clone(),
        chaos.clone(),
        gate.clone(),
        who,
        rng.fork("lanes"),
    ));
    if let Some(mutant) = world.plan.mutant {
        store = mutant.store_above(store);
        lanes = mutant.lanes_above(lanes);
        sink = mutant.sink_above(sink, chaos, world.plan.options.lease);
    }
    let (told, teller) = (chaos.clone(), Arc::clone(who));
    let builder = match (by_lanes, world.plan.sagas) {
        (_, Some(_)) => {
            let below = saga::sagas_below(world, rng.fork("callback"));
            let sagas = ChaosSagas::new(below, chaos.clone(), gate.clone(), who, rng.fork("sagas"));
            let handlers = saga::handlers(chaos, gate, who, rng.fork("handlers"))?;
            Relay::sagas(store, sagas, handlers)
        }
        (false, None) => Relay::builder(store, sink),
        (true, None) => Relay::ordered(lanes, sink),
    };
    let mut options = world.plan.options.clone();
    if let Some(lanes) = world.plan.lanes
        && rng.fork("setting").permille(500)
    {
        options.relays_max = lanes.relays_max_new;
    }
    builder
        .route(ROUTE)
        .options(options)
        .owner(&**who)
        .seed(rng.next_u64())
        .on_death(move |death| told.record_as(&teller, Happened::DeathTold { id: death.event_id }))
        .build()
}

type Outcome = std::result::Result<Result<Tally>, Box<dyn std::any::Any + Send>>;

/// What ends a relay from outside.
struct Process<'a> {
    who: &'a Arc<str>,
    stop: &'a Notify,
    gate: &'a Gate,
    /// When a deployment replaces it.
    changes_at: Option<Instant>,
}

/// Runs a relay to its end, whichever end that is.
async fn watch(
    world: &World,
    process: &Process<'_>,
    rng: &mut Rng,
    running: Supervised<impl Future<Output = Outcome>>,
) -> (Ended<Outcome>, bool) {
    let Process { who, stop, gate, changes_at } = process;
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
            ended = &mut running => return (ended, stop_by.is_some()),
            () = world.closing(), if stop_by.is_none() => stop_by = begin_stop(),
            () = sleep_until(changes_at.unwrap_or(fate_at)), if stop_by.is_none() && changes_at.is_some() => {
                // A deployment asks it to stop; one that is in a hurry does not wait for that.
                if rng.fork("hurry").permille(300) && world.chaos.strikes(rng, Fault::Crash) {
                    gate.kill();
                } else {
                    stop_by = begin_stop();
                }
            }
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

/// A daemon ends when it is told to, or by an error that waiting cannot mend.
fn note_end(world: &World, who: &Arc<str>, ended: Ended<Outcome>, must_go_on: bool) {
    match ended {
        Ended::Returned(Ok(result)) => {
            if must_go_on && !matches!(&result, Err(error) if error.kind() == ErrorKind::Schema) {
                world.broken("daemon", format!("{who} ended by itself: {result:?}"));
            }
            let delivered = result.as_ref().map_or(0, |tally| tally.delivered);
            let error = result.err().map(|error| error.to_string());
            world.chaos.record_as(who, Happened::Stopped { error, delivered });
        }
        Ended::Returned(Err(_panic)) => world.broken("F-05", format!("{who} panicked")),
        Ended::Killed => world.chaos.record_as(who, Happened::Crashed),
        Ended::Spun => world.broken("I-15", format!("{who} spins: it works on and on without time moving")),
    }
}
