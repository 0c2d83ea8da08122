//! Two relays on one route; one of them is killed in mid-flight, and another takes its place.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Sink;
use pillarbox_core::{Backoff, Jitter};
use pillarbox_engine::{Relay, RelayOptions};
use tokio::sync::watch;

use super::sink::FaultySink;
use super::world::{Figures, TICK, World};
use crate::fault::Fault;

/// Short, so that what the killed relay held moves again while somebody watches.
const LEASE: Duration = Duration::from_secs(1);
const BATCH: u32 = 50;

/// Delivers until it is stopped.
pub(crate) async fn run(
    world: &World,
    sink: FaultySink,
    stopped: watch::Receiver<bool>,
) -> Result<(), Fault> {
    let sink: Arc<dyn Sink> = Arc::new(sink);
    let steady = relay(world, &sink, "relay-1")?;
    let doomed = relay(world, &sink, "relay-2")?;
    let successor = relay(world, &sink, "relay-3")?;
    let second = async {
        tokio::select! {
            result = doomed.run(until(stopped.clone())) => return result,
            () = in_mid_flight(world, &doomed) => {}
        }
        // The run was dropped with entries in flight: nothing was settled or released, as after SIGKILL.
        Figures::add(&world.figures.killed_in_flight, doomed.handle().state().in_flight);
        successor.run(until(stopped.clone())).await
    };
    tokio::try_join!(steady.run(until(stopped.clone())), second)?;
    Ok(())
}

async fn in_mid_flight(world: &World, relay: &Relay) {
    let handle = relay.handle();
    loop {
        let enough = Figures::of(&world.figures.deliveries) >= world.events / 2;
        if enough && handle.state().in_flight > 0 {
            return;
        }
        tokio::time::sleep(TICK / 10).await;
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means that the flow has ended another way.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn relay(world: &World, sink: &Arc<dyn Sink>, owner: &str) -> Result<Relay, Fault> {
    let mut options = RelayOptions::broker();
    options.lease = LEASE;
    options.batch = BATCH;
    options.in_flight_max = 4 * BATCH;
    options.reap_interval = LEASE / 4;
    options.backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100), Jitter::Full)?;
    options.circuit = Backoff::new(Duration::from_millis(50), Duration::from_millis(100), Jitter::None)?;
    // Faults are frequent here, and none of them is for good: nothing should die of bad luck.
    options.max_attempts = 50;
    let relay = Relay::builder(Arc::clone(&world.database.store), Arc::clone(sink))
        .route(world.route.as_str())
        .options(options)
        .owner(owner)
        .seed(world.seed);
    Ok(relay.build()?)
}
