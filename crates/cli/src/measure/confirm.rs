//! How long after its commit an event is confirmed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, EventId, Outcome};
use pillarbox_engine::Relay;
use serde::Serialize;
use tokio::sync::Notify;

use super::stats::percentile;
use crate::fault::Fault;

/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The middle and the worst of a hundred.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Milliseconds {
    /// Half do not exceed it.
    pub p50: f64,
    /// 99 of 100 do not exceed it.
    pub p99: f64,
}

impl Milliseconds {
    /// Of these times.
    #[must_use]
    pub fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        times.sort_by(f64::total_cmp);
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Self { p50: rounded(percentile(&times, 50)), p99: rounded(percentile(&times, 99)) }
    }
}

/// A transaction that has ended well.
pub struct Committed {
    /// The event that it staged.
    pub id: EventId,
    /// How long it took.
    pub took: Duration,
    /// When the writer heard of it.
    pub at: Instant,
}

/// Writes while the relay runs, and waits until everything was confirmed.
pub async fn beside(
    relay: &Relay,
    sink: &Stamping,
    write: impl Future<Output = Result<Vec<Committed>, Fault>>,
) -> Result<Vec<Committed>, Fault> {
    let done = Notify::new();
    let writing = async {
        let committed = write.await;
        let all = committed.as_ref().map_or(0, Vec::len);
        let waited = Instant::now();
        while sink.confirmed().len() < all && waited.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        done.notify_one();
        committed
    };
    let (ran, committed) = tokio::join!(relay.run(done.notified()), writing);
    let _ = ran?;
    let (committed, confirmed) = (committed?, sink.confirmed().len());
    if confirmed < committed.len() {
        let all = committed.len();
        return Err(Fault::failed(format!(
            "only {confirmed} of {all} events were confirmed by the destination",
        )));
    }
    Ok(committed)
}

/// A sink that notes when each event was confirmed.
pub struct Stamping {
    sink: Arc<dyn Sink>,
    confirmed: Mutex<HashMap<EventId, Instant>>,
}

impl Stamping {
    /// In front of this one.
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink, confirmed: Mutex::default() }
    }

    /// How long after its commit each was confirmed. It may be before the writer hears of its commit.
    pub fn waited(&self, committed: &[Committed]) -> Vec<Duration> {
        let seen = self.confirmed();
        let waited = |of: &Committed| Some(seen.get(&of.id)?.saturating_duration_since(of.at));
        committed.iter().filter_map(waited).collect()
    }

    fn confirmed(&self) -> MutexGuard<'_, HashMap<EventId, Instant>> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for Stamping {
    fn capabilities(&self) -> SinkCapabilities {
        self.sink.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        self.sink.deliver(batch, &Stamped { by: self, batch, report }).await;
    }
}

/// The reports of one batch on their way.
struct Stamped<'a> {
    by: &'a Stamping,
    batch: &'a [Entry],
    report: &'a dyn Report,
}

impl Report for Stamped<'_> {
    fn outcome(&self, index: usize, outcome: Outcome) {
        if let (Outcome::Confirmed, Some(entry)) = (&outcome, self.batch.get(index)) {
            self.by.confirmed().entry(entry.event_id).or_insert_with(Instant::now);
        }
        self.report.outcome(index, outcome);
    }
}
