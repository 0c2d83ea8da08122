//! Staging: what one staged event costs a business transaction, and how fast many are staged.

use std::time::Instant;

use futures_util::future::try_join_all;
use pillarbox_core::{Event, RouteName};
use serde::Serialize;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::stats::{median, rate, ratio};
use crate::database::Staging;
use crate::fault::Fault;
use crate::output::Progress;

/// Events of one bulk call.
const BULK: u32 = 1000;

/// What staging reaches.
#[derive(Debug, Serialize)]
pub(crate) struct StageFigures {
    /// Business transactions a second, nothing staged.
    pub(crate) business_per_second: f64,
    /// The same with one event staged in each.
    pub(crate) business_with_event_per_second: f64,
    /// The second of the first.
    pub(crate) ratio: f64,
    /// Events a second, a thousand a call.
    pub(crate) bulk_per_second: f64,
}

/// Whether a business transaction stages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    Event,
}

pub(crate) async fn measure(bed: &Bed, args: &BenchArgs, progress: &Progress) -> Result<StageFigures, Fault> {
    let (mut bare, mut with, mut bulk) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        bare.push(business(bed, args, With::Nothing).await?);
        with.push(business(bed, args, With::Event).await?);
        bulk.push(many(bed, args).await?);
        bed.main.staging.execute(bed.sql.clear_outbox).await?;
        progress.add(1);
    }
    Ok(StageFigures {
        business_per_second: median(&bare).round(),
        business_with_event_per_second: median(&with).round(),
        ratio: ratio(&with, &bare),
        bulk_per_second: median(&bulk).round(),
    })
}

async fn business(bed: &Bed, args: &BenchArgs, with: With) -> Result<f64, Fault> {
    let clients = match bed.main.staging {
        Staging::Sqlite(..) => 1,
        Staging::Postgres(..) => args.clients,
    };
    bed.settle_down().await?;
    let started = Instant::now();
    try_join_all((0..clients).map(|client| {
        let share = args.transactions / clients + u32::from(client < args.transactions % clients);
        transactions(bed, share, with)
    }))
    .await?;
    Ok(rate(u64::from(args.transactions), started))
}

async fn transactions(bed: &Bed, count: u32, with: With) -> Result<(), Fault> {
    let route = RouteName::new(ROUTE)?;
    let outbox = bed.main.staging.outbox(&route);
    for _ in 0..count {
        let mut tx = bed.main.staging.begin().await?;
        tx.execute(bed.sql.business, &["a business row of a plausible length"]).await?;
        if with == With::Event {
            let _ = tx.stage_all(&outbox, vec![Event::new("bench.event", bed.payload.clone())]).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

async fn many(bed: &Bed, args: &BenchArgs) -> Result<f64, Fault> {
    let route = RouteName::new(ROUTE)?;
    let outbox = bed.main.staging.outbox(&route);
    bed.settle_down().await?;
    let started = Instant::now();
    let mut left = args.events;
    while left > 0 {
        let now = left.min(BULK);
        let events = (0..now).map(|_| Event::new("bench.event", bed.payload.clone())).collect();
        let mut tx = bed.main.staging.begin().await?;
        let _ = tx.stage_all(&outbox, events).await?;
        tx.commit().await?;
        left -= now;
    }
    Ok(rate(u64::from(args.events), started))
}
