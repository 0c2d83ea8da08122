//! Growth: the rate of a drain beside a million settled entries, and at the head of a million pending ones.

use std::sync::Arc;

use pillarbox_cli::database::Database;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::Keep;
use pillarbox_engine::sink::NullSink;
use serde::Serialize;

use super::BenchArgs;
use super::bed::Bed;
use super::by::{By, fill, options, per_second};

/// What growth costs; what was not asked for is absent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct GrowthFigures {
    /// Beside settled entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settled: Option<Growth>,
    /// At the head of pending entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Growth>,
}

/// What so many entries more cost.
#[derive(Debug, Serialize)]
pub(crate) struct Growth {
    /// How many.
    pub(crate) entries: u32,
    pub(crate) rows: Grown,
    pub(crate) lanes: Grown,
}

/// One rate in a small table and in a large one.
#[derive(Debug, Serialize)]
pub(crate) struct Grown {
    /// In the small table.
    pub(crate) small_per_second: f64,
    /// In the large one.
    pub(crate) grown_per_second: f64,
    /// The second of the first.
    pub(crate) ratio: f64,
}

/// How many rounds more than of the rest.
const GUSTS: u32 = 2;

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    progress: &Progress,
) -> Result<GrowthFigures, Fault> {
    let mut figures = GrowthFigures::default();
    if args.settled > 0 {
        bed.load(bed.sql.load_big_settled, args.settled).await?;
        figures.settled = Some(growth(bed, args, args.settled).await?);
        progress.add(1);
    }
    if args.pending > 0 {
        bed.load(bed.sql.load_big_pending, args.pending).await?;
        figures.pending = Some(growth(bed, args, args.pending).await?);
        progress.add(1);
    }
    Ok(figures)
}

async fn growth(bed: &Bed, args: &BenchArgs, entries: u32) -> Result<Growth, Fault> {
    Ok(Growth {
        entries,
        rows: rounds(bed, args, By::Rows).await?,
        lanes: rounds(bed, args, By::Lanes).await?,
    })
}

// Small and large in turns: both meet the same weather.
async fn rounds(bed: &Bed, args: &BenchArgs, by: By) -> Result<Grown, Fault> {
    let (mut small, mut grown) = (Vec::new(), Vec::new());
    // A drain of a second meets gusts that others do not.
    for _ in 0..args.repeat + GUSTS {
        fill(bed, args).await?;
        bed.main.staging.execute(bed.sql.write_down).await?;
        small.push(first(&bed.main, args, by).await?);
        // What was drained is put back, or what was settled would not wait to be drained.
        bed.load(bed.sql.load_big_pending, args.events).await?;
        bed.main.staging.execute(bed.sql.write_down).await?;
        grown.push(first(&bed.big, args, by).await?);
    }
    Ok(Grown {
        small_per_second: median(&small).round(),
        grown_per_second: median(&grown).round(),
        ratio: ratio(&grown, &small),
    })
}

// Delivers the first so many entries, however many there are.
async fn first(database: &Database, args: &BenchArgs, by: By) -> Result<f64, Fault> {
    let relay = by.relay(database, Arc::new(NullSink), options(args, Keep::UntilPurged))?;
    let handle = relay.handle();
    let enough = async {
        while handle.state().tally.delivered < u64::from(args.events) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    Ok(per_second(&relay.drain_until(enough).await?))
}
