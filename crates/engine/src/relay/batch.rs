//! One claimed batch on its way: its entries, what is still open of it, and until when its lease holds.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable};
use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, FailureKind, Outcome};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::trace::{self, Traces};
use crate::verdict::Ended;

/// The number of a batch in this run.
pub(crate) type BatchId = u64;

/// An outcome that a sink reported.
pub(crate) struct Reported {
    pub(crate) batch: BatchId,
    pub(crate) index: usize,
    pub(crate) outcome: Outcome,
}

/// A claimed batch that is not settled yet.
pub(crate) struct Batch {
    pub(crate) entries: Arc<Vec<Entry>>,
    /// Which entries have no verdict yet.
    pub(crate) open: Vec<bool>,
    /// Entries whose verdict is not recorded yet.
    pub(crate) unsettled: usize,
    pub(crate) bytes: usize,
    /// Until when the lease surely holds, by our own monotonic clock.
    pub(crate) lease_end: Instant,
    /// When the sink must have answered; `None`: as long as the lease is renewed.
    pub(crate) deadline: Option<Instant>,
    /// When the sink was handed the batch.
    pub(crate) started: Instant,
    /// Set while the sink is at it.
    pub(crate) delivering: Option<AbortHandle>,
    /// Given back at its end instead of counted: the shutdown's grace is over.
    pub(crate) release_rest: bool,
}

impl Batch {
    /// When to stop delivering it, for whichever reason comes first.
    pub(crate) fn stop_at(&self, lease_margin: std::time::Duration) -> Instant {
        let lease = self.lease_end.checked_sub(lease_margin).unwrap_or(self.lease_end);
        self.deadline.map_or(lease, |deadline| deadline.min(lease))
    }

    /// Whether the entry at `index` has no verdict yet.
    pub(crate) fn is_open(&self, index: usize) -> bool {
        self.open.get(index).copied().unwrap_or(false)
    }

    /// Takes the entry at `index` out of the open ones; `false` if it had its verdict already.
    pub(crate) fn close(&mut self, index: usize) -> bool {
        self.open.get_mut(index).is_some_and(|open| std::mem::replace(open, false))
    }
}

struct Reporter {
    batch: BatchId,
    reports: UnboundedSender<Reported>,
    span: Span,
}

impl Report for Reporter {
    fn outcome(&self, index: usize, outcome: Outcome) {
        trace::delivered(&self.span, &outcome);
        // The receiver lives as long as the pipeline; once that is gone the outcome is not needed.
        let _ = self.reports.send(Reported { batch: self.batch, index, outcome });
    }
}

/// A batch for a sink, and where its outcomes go.
pub(crate) struct Delivery {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) batch: BatchId,
    pub(crate) entries: Arc<Vec<Entry>>,
    pub(crate) reports: UnboundedSender<Reported>,
    pub(crate) traces: Traces,
}

/// Hands a batch to the sink. A panic is contained; an abort drops the sink's future.
pub(crate) async fn deliver(delivery: Delivery, abort: futures_util::future::AbortRegistration) -> Ended {
    let Delivery { sink, batch, entries, reports, traces } = delivery;
    let span = match (sink.capabilities(), entries.first()) {
        // Handlers of this process have a span for each entry.
        (capabilities, Some(first)) if !capabilities.in_process => {
            traces.send(capabilities.system, &first.route, &entries)
        }
        _ => Span::none(),
    };
    let reporter = Reporter { batch, reports, span: span.clone() };
    let delivery = traces.scope(sink.deliver(&entries, &reporter)).instrument(span.clone());
    match Abortable::new(AssertUnwindSafe(delivery).catch_unwind(), abort).await {
        Ok(Ok(())) => Ended::Finished,
        Ok(Err(_panic)) => {
            trace::failed(&span, FailureKind::Panicked.as_str());
            Ended::Panicked
        }
        Err(_aborted) => {
            trace::failed(&span, FailureKind::Unknown.as_str());
            Ended::Aborted
        }
    }
}
