//! The outcome table: from what a sink said of an entry to what the store records.

use pillarbox_core::port::Verdict;
use pillarbox_core::{Entry, Failure, FailureKind, Outcome};

use crate::options::RelayOptions;

/// What to record of an entry, given what came of its delivery.
pub(crate) fn verdict(outcome: Outcome, entry: &Entry, options: &RelayOptions, random: u64) -> Verdict {
    let (failure, retry_after) = match outcome {
        Outcome::Confirmed | Outcome::ConfirmedWith(_) => return Verdict::Delivered,
        Outcome::Rejected(failure) => return Verdict::dead(failure),
        Outcome::Down(failure) | Outcome::Busy { failure, .. } => {
            return Verdict::release(failure);
        }
        Outcome::Untried => {
            let text = "an entry of the same key before it was not delivered";
            return Verdict::release(Failure::new(FailureKind::Failed, "behind", text));
        }
        Outcome::Parked { after } => {
            let failure = Failure::new(FailureKind::Failed, "parked", "the handler asked to be called later");
            return Verdict::park(after.min(pillarbox_core::limits::DELAY_MAX), failure);
        }
        Outcome::Failed { failure, retry_after } => (failure, retry_after),
        Outcome::Unknown(failure) => (failure, None),
        // An outcome of a later version. Trying again is safe for every outcome.
        _ => (Failure::new(FailureKind::Unknown, "outcome", "this relay does not know the outcome"), None),
    };
    if entry.is_last_attempt(options.max_attempts) {
        return Verdict::dead(failure);
    }
    let attempts = entry.attempts.max(1);
    let after = retry_after
        .unwrap_or_else(|| options.backoff.delay(attempts, random).unwrap_or(options.backoff.max()))
        .min(pillarbox_core::limits::DELAY_MAX);
    Verdict::retry(after, failure)
}

/// The outcome of an entry whose delivery ended without a word about it.
pub(crate) fn unreported(how: Ended) -> Outcome {
    match how {
        Ended::Finished => {
            Outcome::unknown("no_report", "the sink returned without an outcome for this entry")
        }
        Ended::Aborted => Outcome::unknown("deadline", "the sink gave no outcome before the deadline"),
        Ended::Panicked => Outcome::Failed {
            failure: Failure::new(FailureKind::Panicked, "panic", "the sink panicked while delivering"),
            retry_after: None,
        },
    }
}

/// How the delivery of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The sink returned.
    Finished,
    /// A deadline passed, or the grace of a shutdown.
    Aborted,
    /// The sink panicked.
    Panicked,
}
