//! `--latency N`: how long after its commit an event is delivered, and whether the writer notices the relay.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Milliseconds, Stamping, beside, ratio};
use pillarbox_core::port::{Keep, Sink};
use serde::Serialize;

use super::BenchArgs;
use super::bed::Bed;
use super::by::{By, options};
use super::writer::write;

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
