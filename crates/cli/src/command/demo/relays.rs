//! Two relays on one route; one of them is killed in mid-flight, and another takes its place.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Sink;
use pillarbox_core::{Backoff, Jitter};
use pillarbox_engine::{Relay, RelayOptions};
use tokio::sync::{Notify, watch};

use super::sink::{Destination, FaultySink};
use super::state::{Demo, Figures};
use crate::fault::Fault;

/// Short, so that what the killed relay held moves again while somebody watches.
const LEASE: Duration = Duration::from_secs(1);
const BATCH: u32 = 50;

/// Delivers until it is stopped.
pub(crate) async fn run(
    demo: &Demo,
    destination: Destination,
    stopped: watch::Receiver<bool>,
) -> Result<(), Fault> {
    let destination = Arc::new(destination);
    let first = keep_running(demo, &destination, "relay-1", stopped.clone());
    let second = keep_running(demo, &destination, "relay-2", stopped);
    tokio::try_join!(first, second)?;
    Ok(())
}

// Which of the two is killed is the destination's choice: the one that reached it at that moment.
async fn keep_running(
    demo: &Demo,
    destination: &Arc<Destination>,
    owner: &str,
    stopped: watch::Receiver<bool>,
) -> Result<(), Fault> {
    let killed = Arc::new(Notify::new());
    let sink: Arc<dyn Sink> = Arc::new(FaultySink::new(Arc::clone(destination), Arc::clone(&killed)));
    let doomed = relay(demo, &sink, owner)?;
    tokio::select! {
        result = doomed.run(until(stopped.clone())) => result?,
        () = killed.notified() => {
            // The run was dropped with entries in flight: nothing was settled or released, as after SIGKILL.
            Figures::add(&demo.figures.killed_in_flight, doomed.handle().state().in_flight);
            relay(demo, &sink, "relay-3")?.run(until(stopped)).await?
        }
    };
    Ok(())
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means that the flow has ended another way.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn relay(demo: &Demo, sink: &Arc<dyn Sink>, owner: &str) -> Result<Relay, Fault> {
    let mut options = RelayOptions::broker();
    options.lease = LEASE;
    options.batch = BATCH;
    options.in_flight_max = 4 * BATCH;
    options.reap_interval = LEASE / 4;
    options.backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100), Jitter::Full)?;
    options.circuit = Backoff::new(Duration::from_millis(50), Duration::from_millis(100), Jitter::None)?;
    // Faults are frequent here, and none of them is for good: nothing should die of bad luck.
    options.max_attempts = 50;
    let relay = Relay::builder(Arc::clone(&demo.database.store), Arc::clone(sink))
        .route(demo.route.as_str())
        .options(options)
        .owner(owner)
        .seed(demo.seed);
    Ok(relay.build()?)
}
