//! Draining to `null:`: the relay against the bare store and against the classic loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox_core::RouteName;
use pillarbox_core::port::{ClaimOrder, ClaimRequest, Keep, SettleRequest, Settlement, Verdict};
use pillarbox_engine::sink::NullSink;
use pillarbox_engine::{Relay, RelayOptions};
use serde::Serialize;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::classic;
use super::stats::{median, rate, ratio};
use crate::database::Database;
use crate::fault::Fault;
use crate::output::Progress;

/// What draining reaches.
#[derive(Debug, Serialize)]
pub(crate) struct DrainFigures {
    /// The raw classic loop.
    pub(crate) classic_per_second: f64,
    /// Delivered entries stay.
    pub(crate) kept: Drained,
    /// Delivered entries are deleted as they are settled.
    pub(crate) deleted: Drained,
}

/// The same drain without and with the engine.
#[derive(Debug, Serialize)]
pub(crate) struct Drained {
    /// The store's claim and settle in a loop.
    pub(crate) bare_per_second: f64,
    /// The relay.
    pub(crate) relay_per_second: f64,
    /// The relay of the bare loop.
    pub(crate) relay_to_bare: f64,
    /// The relay of the classic loop.
    pub(crate) relay_to_classic: f64,
}

pub(crate) async fn measure(bed: &Bed, args: &BenchArgs, progress: &Progress) -> Result<DrainFigures, Fault> {
    let mut classic = Vec::new();
    let mut kept = (Vec::new(), Vec::new());
    let mut deleted = (Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        classic.push(classic::drain(bed, args).await?);
        for (keep, (bare, relayed)) in [(Keep::UntilPurged, &mut kept), (Keep::No, &mut deleted)] {
            fill(bed, args).await?;
            bare.push(bare_loop(&bed.main, args, keep).await?);
            fill(bed, args).await?;
            relayed.push(relay(&bed.main, args, keep)?.drain().await.map(|tally| per_second(&tally))?);
        }
        progress.add(1);
    }
    let drained = |(bare, relayed): &(Vec<f64>, Vec<f64>)| Drained {
        bare_per_second: median(bare).round(),
        relay_per_second: median(relayed).round(),
        relay_to_bare: ratio(relayed, bare),
        relay_to_classic: ratio(relayed, &classic),
    };
    Ok(DrainFigures {
        classic_per_second: median(&classic).round(),
        kept: drained(&kept),
        deleted: drained(&deleted),
    })
}

/// Empties the outbox and fills it again.
pub(crate) async fn fill(bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
    bed.main.staging.execute(bed.sql.clear_outbox).await?;
    bed.load(bed.sql.load_outbox, args.events).await
}

/// A relay to `null:` with the measurement's batch.
pub(crate) fn relay(database: &Database, args: &BenchArgs, keep: Keep) -> Result<Relay, Fault> {
    let mut options = RelayOptions::default();
    options.batch = args.batch;
    options.in_flight_max = options.in_flight_max.max(args.batch);
    options.keep = keep;
    let relay = Relay::builder(Arc::clone(&database.store), Arc::new(NullSink)).route(ROUTE).options(options);
    Ok(relay.build()?)
}

/// What a run delivered in a second.
pub(crate) fn per_second(tally: &pillarbox_engine::Tally) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let delivered = tally.delivered as f64;
    delivered / tally.elapsed.as_secs_f64().max(f64::EPSILON)
}

/// A claim as a relay makes it, with the measurement's batch.
pub(crate) fn claim(args: &BenchArgs) -> Result<ClaimRequest, Fault> {
    Ok(ClaimRequest {
        route: RouteName::new(ROUTE)?,
        limit: args.batch,
        lease: Duration::from_secs(30),
        owner: "bench".into(),
        max_attempts: 5,
        order: ClaimOrder::Staged,
        now: None,
    })
}

async fn bare_loop(database: &Database, args: &BenchArgs, keep: Keep) -> Result<f64, Fault> {
    let claim = claim(args)?;
    let started = Instant::now();
    let mut drained = 0;
    loop {
        let claimed = database.store.claim(claim.clone()).await?;
        if claimed.entries.is_empty() {
            return Ok(rate(drained, started));
        }
        let settlements = claimed
            .entries
            .iter()
            .map(|entry| Settlement { held: entry.held(), verdict: Verdict::Delivered })
            .collect();
        let request = SettleRequest { owner: "bench".into(), settlements, keep, now: None };
        drained += database.store.settle(request).await?.accepted;
    }
}
