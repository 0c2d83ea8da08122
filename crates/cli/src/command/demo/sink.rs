//! The destination: a queue that fails, loses confirmations, and is away for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, EventId, Outcome};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::random::Random;
use super::state::{Demo, Figures};

const FAILURE_PERCENT: u64 = 10;
const LOST_CONFIRMATION_PERCENT: u64 = 4;
/// How long the destination is down.
const OUTAGE: Duration = Duration::from_millis(300);
/// How long a publish takes.
const LATENCY: Duration = Duration::from_millis(2);

/// Whether the destination has been away.
enum Outage {
    /// It goes away after so many deliveries.
    After(u64),
    Until(Instant),
    Over,
}

struct Faults {
    random: Random,
    outage: Outage,
    /// A relay is killed after so many deliveries, once.
    kill_after: Option<u64>,
}

/// A destination with the faults that real ones have.
pub(crate) struct Destination {
    figures: Arc<Figures>,
    queue: UnboundedSender<EventId>,
    faults: Mutex<Faults>,
}

impl Destination {
    /// A destination in front of this queue.
    pub(crate) fn new(demo: &Demo, queue: UnboundedSender<EventId>) -> Self {
        let faults = Faults {
            random: Random::new(demo.seed, 1),
            outage: Outage::After(demo.events / 4),
            kill_after: Some(demo.events / 2),
        };
        Self { figures: Arc::clone(&demo.figures), queue, faults: Mutex::new(faults) }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_away(&self) -> bool {
        let mut faults = self.faults();
        match faults.outage {
            Outage::After(deliveries) if Figures::of(&self.figures.deliveries) >= deliveries => {
                faults.outage = Outage::Until(Instant::now() + OUTAGE);
                true
            }
            Outage::Until(end) if Instant::now() < end => true,
            Outage::Until(_) => {
                faults.outage = Outage::Over;
                false
            }
            Outage::After(_) | Outage::Over => false,
        }
    }

    /// True for whoever published just now, once: it does not live to see the answer.
    fn kills(&self) -> bool {
        let deliveries = Figures::of(&self.figures.deliveries);
        self.faults().kill_after.take_if(|after| deliveries >= *after).is_some()
    }

    fn publish(&self, entry: &Entry) -> Outcome {
        let mut faults = self.faults();
        if faults.random.percent(FAILURE_PERCENT) {
            Figures::add(&self.figures.failures, 1);
            return Outcome::failed("demo", "the destination refused this message for now");
        }
        if self.queue.send(entry.event_id).is_err() {
            return Outcome::down("demo", "the consumer has stopped");
        }
        Figures::add(&self.figures.deliveries, 1);
        if faults.random.percent(LOST_CONFIRMATION_PERCENT) {
            Figures::add(&self.figures.confirmations_lost, 1);
            return Outcome::unknown("demo", "the confirmation was lost");
        }
        Outcome::Confirmed
    }
}

/// One relay's way to the destination, on which the relay may be killed.
pub(crate) struct FaultySink {
    destination: Arc<Destination>,
    killed: Arc<Notify>,
}

impl FaultySink {
    /// A way to this destination; `killed` hears when the relay that uses it is to die.
    pub(crate) fn new(destination: Arc<Destination>, killed: Arc<Notify>) -> Self {
        Self { destination, killed }
    }
}

#[async_trait]
impl Sink for FaultySink {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        for (index, entry) in batch.iter().enumerate() {
            if self.destination.is_away() {
                Figures::add(&self.destination.figures.refused_by_outage, 1);
                report.outcome(index, Outcome::down("demo", "the destination is down"));
                continue;
            }
            let outcome = self.destination.publish(entry);
            if self.destination.kills() {
                // What is published here is not reported, and so not settled: the relay is gone before.
                self.killed.notify_one();
                return std::future::pending().await;
            }
            report.outcome(index, outcome);
            if index % 10 == 9 {
                tokio::time::sleep(LATENCY).await;
            }
        }
    }
}
