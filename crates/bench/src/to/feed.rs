//! The destination's client alone: a sink that is fed from memory, with as much under way as a relay has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::{StreamExt, stream};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::rate;
use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, Failure, Outcome};
use pillarbox_engine::RelayOptions;

use crate::BenchArgs;
use crate::bare::claim;
use crate::bed::Bed;
use crate::by::fill;

/// Entries as a relay would hand them over, claimed from the database before anything is measured. They are fresh
/// each time: a broker that knows an event id already has less to do.
pub(crate) async fn batches(bed: &Bed, args: &BenchArgs) -> Result<Vec<Vec<Entry>>, Fault> {
    fill(bed, args).await?;
    let mut batches = Vec::new();
    loop {
        let claimed = bed.main.store.claim(claim(args)?).await?;
        if claimed.entries.is_empty() {
            return Ok(batches);
        }
        batches.push(claimed.entries);
    }
}

/// Delivers all and says how fast.
pub(crate) async fn feed(
    sink: &dyn Sink,
    batches: &[Vec<Entry>],
    options: &RelayOptions,
) -> Result<f64, Fault> {
    let under_way = usize::try_from((options.in_flight_max / options.batch).max(1)).unwrap_or(1);
    let confirmed = Confirmed::default();
    let started = Instant::now();
    let deliveries = stream::iter(batches).map(|batch| sink.deliver(batch, &confirmed));
    deliveries.buffer_unordered(under_way).collect::<()>().await;
    let count = confirmed.count.load(Ordering::Relaxed);
    let rate = rate(count, started);
    let all = batches.iter().map(|batch| u64::try_from(batch.len()).unwrap_or(u64::MAX)).sum::<u64>();
    match (confirmed.first_failure.into_inner(), all - count.min(all)) {
        (None, 0) => Ok(rate),
        (Some(failure), missed) => Err(Fault::failed(format!("{missed} of {all} not confirmed: {failure}"))),
        (None, missed) => Err(Fault::failed(format!("{missed} of {all} not answered"))),
    }
}

/// Counts what was confirmed, and remembers the first that was not.
#[derive(Default)]
struct Confirmed {
    count: AtomicU64,
    first_failure: OnceLock<Failure>,
}

impl Report for Confirmed {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        if matches!(outcome, Outcome::Confirmed | Outcome::ConfirmedWith(_)) {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else if let Some(failure) = outcome.failure() {
            // The first one says enough.
            let _ = self.first_failure.set(failure.clone());
        }
    }
}
