//! `--latency N`: how long after its commit an event is delivered, and whether the writer notices the relay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox_core::port::{Keep, Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Event, EventId, Outcome, RouteName};
use pillarbox_engine::Relay;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, options};
use super::stats::percentile;
use crate::fault::Fault;

/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Latency at a steady rate of staging.
#[derive(Debug, Serialize)]
pub(crate) struct LatencyFigures {
    /// Events of each writer, one in each transaction.
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
}

/// The middle and the worst of a hundred.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Milliseconds {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Milliseconds {
    fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        times.sort_by(f64::total_cmp);
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Self { p50: rounded(percentile(&times, 50)), p99: rounded(percentile(&times, 99)) }
    }
}

/// Measures in turns: without a relay, by rows, by lanes.
pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    sink: Arc<dyn Sink>,
) -> Result<LatencyFigures, Fault> {
    let mut alone = Vec::new();
    let mut delivered: [(Vec<Duration>, Vec<Duration>); 2] = Default::default();
    for _ in 0..args.repeat {
        bed.main.staging.execute(bed.sql.clear_outbox).await?;
        alone.extend(write(bed, args).await?.into_iter().map(|(_, took, _)| took));
        for (by, (confirmed, writer)) in By::BOTH.into_iter().zip(&mut delivered) {
            bed.main.staging.execute(bed.sql.clear_outbox).await?;
            bed.settle_down().await?;
            let sink = Arc::new(Stamping { sink: Arc::clone(&sink), confirmed: Mutex::default() });
            let relay =
                by.relay(&bed.main, Arc::clone(&sink) as Arc<dyn Sink>, options(args, Keep::UntilPurged))?;
            let committed = beside(bed, args, &relay, &sink).await?;
            let seen = sink.confirmed();
            for (id, took, at) in committed {
                writer.push(took);
                // It may be confirmed before the writer hears of its commit.
                confirmed.extend(seen.get(&id).map(|seen| seen.saturating_duration_since(at)));
            }
        }
    }
    let [rows, lanes] = delivered.map(|(confirmed, writer)| Delivery {
        commit_to_confirm: Milliseconds::of(&confirmed),
        writer: Milliseconds::of(&writer),
    });
    Ok(LatencyFigures {
        events: args.latency,
        per_second: args.rate,
        writer_alone: Milliseconds::of(&alone),
        rows,
        lanes,
    })
}

/// An event, how long its transaction took, and when it was committed.
type Committed = (EventId, Duration, Instant);

/// Stages one event in each transaction, at the rate that was asked for. A task of its own, as a service beside the relay
/// is: in one with it, it would wait for the relay's own work.
async fn write(bed: &Bed, args: &BenchArgs) -> Result<Vec<Committed>, Fault> {
    let (staging, sql, payload) = (bed.main.staging.clone(), bed.sql, bed.payload.clone());
    let outbox = staging.outbox(&RouteName::new(ROUTE)?);
    let keys: Vec<Option<String>> = (0..args.latency).map(|number| bed.key(number)).collect();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / args.rate);
    let mut writer = JoinSet::new();
    writer.spawn(async move {
        let mut committed = Vec::with_capacity(keys.len());
        for key in keys {
            ticks.tick().await;
            let id = EventId(uuid::Uuid::now_v7());
            let mut event = Event::new("bench.event", payload.clone()).id(id);
            event.key = key;
            let begun = Instant::now();
            let mut tx = staging.begin().await?;
            tx.execute(sql.business, &["a business row of a plausible length"]).await?;
            let _ = tx.stage_all(&outbox, vec![event]).await?;
            tx.commit().await?;
            committed.push((id, begun.elapsed(), Instant::now()));
        }
        Ok(committed)
    });
    writer.join_next().await.and_then(Result::ok).unwrap_or_else(|| Err(Fault::failed("the writer panicked")))
}

/// Writes while the relay runs, and waits until everything was confirmed.
async fn beside(
    bed: &Bed,
    args: &BenchArgs,
    relay: &Relay,
    sink: &Stamping,
) -> Result<Vec<Committed>, Fault> {
    let done = Notify::new();
    let writing = async {
        let committed = write(bed, args).await;
        let waited = Instant::now();
        let all = usize::try_from(args.latency).unwrap_or(usize::MAX);
        while committed.is_ok() && sink.confirmed().len() < all && waited.elapsed() < PATIENCE {
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
struct Stamping {
    sink: Arc<dyn Sink>,
    confirmed: Mutex<HashMap<EventId, Instant>>,
}

impl Stamping {
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
