//! Growth: the rate of a drain beside a million settled entries, and at the head of a million pending ones.

use pillarbox_core::port::Keep;
use serde::Serialize;

use super::BenchArgs;
use super::bed::Bed;
use super::drain::{per_second, relay};
use super::stats::{median, ratio};
use crate::database::Database;
use crate::fault::Fault;
use crate::output::Progress;

/// What growth costs; what was not asked for is absent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct GrowthFigures {
    /// Beside settled entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settled: Option<Grown>,
    /// At the head of pending entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Grown>,
}

/// One rate in a small table and in a large one.
#[derive(Debug, Serialize)]
pub(crate) struct Grown {
    /// How many entries more.
    pub(crate) rows: u32,
    /// In the small table.
    pub(crate) small_per_second: f64,
    /// In the large one.
    pub(crate) grown_per_second: f64,
    /// The second of the first.
    pub(crate) ratio: f64,
}

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    progress: &Progress,
) -> Result<GrowthFigures, Fault> {
    let mut figures = GrowthFigures::default();
    if args.settled > 0 {
        bed.load(bed.sql.load_big_settled, args.settled).await?;
        figures.settled = Some(rounds(bed, args, args.settled, true).await?);
        progress.add(1);
    }
    if args.pending > 0 {
        bed.load(bed.sql.load_big_pending, args.pending).await?;
        figures.pending = Some(rounds(bed, args, args.pending, false).await?);
        progress.add(1);
    }
    Ok(figures)
}

// Small and large in turns: both meet the same weather.
async fn rounds(bed: &Bed, args: &BenchArgs, rows: u32, refill: bool) -> Result<Grown, Fault> {
    let (mut small, mut grown) = (Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        bed.main.staging.execute(bed.sql.clear_outbox).await?;
        bed.load(bed.sql.load_outbox, args.events).await?;
        small.push(first(&bed.main, args).await?);
        if refill {
            bed.load(bed.sql.load_big_pending, args.events).await?;
        }
        grown.push(first(&bed.big, args).await?);
    }
    Ok(Grown {
        rows,
        small_per_second: median(&small).round(),
        grown_per_second: median(&grown).round(),
        ratio: ratio(&grown, &small),
    })
}

// Delivers the first so many entries, however many there are.
async fn first(database: &Database, args: &BenchArgs) -> Result<f64, Fault> {
    let relay = relay(database, args, Keep::UntilPurged)?;
    let handle = relay.handle();
    let enough = async {
        while handle.state().tally.delivered < u64::from(args.events) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    Ok(per_second(&relay.drain_until(enough).await?))
}
