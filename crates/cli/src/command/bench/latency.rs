//! `--latency N`: how long after its commit an event is delivered, and whether the writer notices the relay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox_core::port::{Keep, Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, EventId, Outcome};
use pillarbox_engine::Relay;
use serde::Serialize;
use tokio::sync::Notify;

use super::BenchArgs;
use super::bed::Bed;
use super::by::{By, options};
use super::stats::{percentile, ratio};
use super::writer::{Committed, write};
use crate::fault::Fault;

/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The events of a round are staged in so many turns: a machine that stalls for a second does so in one of them.
const TURNS: u32 = 5;

/// Latency at a steady rate of staging.
#[derive(Debug, Serialize)]
pub(crate) struct LatencyFigures {
    /// Events of each writer in a round, one in each transaction.
    pub(crate) events: u32,
    /// How many were staged in a second.
    pub(crate) per_second: u32,
    /// The writer's transaction while no relay runs.
    pub(crate) writer_alone: Milliseconds,
    pub(crate) rows: Delivery,
    pub(crate) lanes: Delivery,
}

/// A writer and a relay at the same time.
#[derive(Debug, Serialize)]
pub(crate) struct Delivery {
    /// From the commit to the destination's confirmation.
    pub(crate) commit_to_confirm: Milliseconds,
    /// The writer's transaction, as long as the relay runs.
    pub(crate) writer: Milliseconds,
    /// Its p99 of the one of the writer alone, as the median of the turns.
    pub(crate) writer_p99_to_alone: f64,
}

/// The middle and the worst of a hundred.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Milliseconds {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Milliseconds {
    pub(crate) fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        times.sort_by(f64::total_cmp);
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Self { p50: rounded(percentile(&times, 50)), p99: rounded(percentile(&times, 99)) }
    }
}

/// Of one kind, the times of all turns and the 99th percentile of each turn of the writer.
#[derive(Default)]
struct Times {
    confirmed: Vec<Duration>,
    writer: Vec<Duration>,
    writer_p99: Vec<f64>,
}

impl Times {
    fn written(&mut self, took: Vec<Duration>) {
        self.writer_p99.push(Milliseconds::of(&took).p99);
        self.writer.extend(took);
    }

    fn delivery(&self, alone: &Self) -> Delivery {
        Delivery {
            commit_to_confirm: Milliseconds::of(&self.confirmed),
            writer: Milliseconds::of(&self.writer),
            writer_p99_to_alone: ratio(&self.writer_p99, &alone.writer_p99),
        }
    }
}

/// Measures in turns: without a relay, by rows, by lanes.
pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    sink: Arc<dyn Sink>,
) -> Result<LatencyFigures, Fault> {
    let (mut alone, mut relays) = (Times::default(), [Times::default(), Times::default()]);
    let each = args.latency.div_ceil(TURNS);
    for _ in 0..args.repeat * TURNS {
        afresh(bed).await?;
        let committed = write(bed, args.rate, each).await?;
        alone.written(committed.into_iter().map(|committed| committed.took).collect());
        for (by, times) in By::BOTH.into_iter().zip(&mut relays) {
            afresh(bed).await?;
            let sink = Arc::new(Stamping::new(Arc::clone(&sink)));
            let relay =
                by.relay(&bed.main, Arc::clone(&sink) as Arc<dyn Sink>, options(args, Keep::UntilPurged))?;
            let committed = beside(&relay, &sink, write(bed, args.rate, each)).await?;
            times.confirmed.extend(sink.waited(&committed));
            times.written(committed.into_iter().map(|committed| committed.took).collect());
        }
    }
    let [rows, lanes] = relays.map(|times| times.delivery(&alone));
    Ok(LatencyFigures {
        events: each * TURNS,
        per_second: args.rate,
        writer_alone: Milliseconds::of(&alone.writer),
        rows,
        lanes,
    })
}

/// An empty outbox in a database that has nothing left to do.
pub(crate) async fn afresh(bed: &Bed) -> Result<(), Fault> {
    bed.main.staging.execute(bed.sql.clear_outbox).await?;
    bed.settle_down().await
}

/// Writes while the relay runs, and waits until everything was confirmed.
pub(crate) async fn beside(
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
        return Err(Fault::failed(format!("only {confirmed} of {all} events were confirmed")));
    }
    Ok(committed)
}

/// A sink that notes when each event was confirmed.
pub(crate) struct Stamping {
    sink: Arc<dyn Sink>,
    confirmed: Mutex<HashMap<EventId, Instant>>,
}

impl Stamping {
    /// In front of this one.
    pub(crate) fn new(sink: Arc<dyn Sink>) -> Self {
        Self { sink, confirmed: Mutex::default() }
    }

    /// How long after its commit each was confirmed. It may be before the writer hears of its commit.
    pub(crate) fn waited(&self, committed: &[Committed]) -> Vec<Duration> {
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
