//! Settling: from reports to verdicts to the store, in as few calls as the flow allows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Death, Verdict};
use pillarbox_core::{Entry, Error, ErrorKind, Failure, Held, Outcome, Result, Retry, format_duration};
use tokio::time::Instant;
use tracing::Instrument;

use crate::feed::{Conclusion, Recorded, Recording};
use crate::observe::StoreCall;
use crate::trace;
use crate::verdict::{Ended, unreported, verdict};

use super::super::batch::{BatchId, Reported};
use super::{Completion, Group, Pipeline, Until, bounded};

/// How often verdicts fail together before they are tried apart: an outage of the store is over by then, or longer.
const FAILURES_TOGETHER_MAX: u32 = 3;
/// How long a few verdicts wait for more: as long as this many calls would take, and at most so long.
const GATHER_CALLS: u32 = 3;
const GATHER_MAX: Duration = Duration::from_millis(10);

/// Verdicts on their way to the store.
pub(super) struct Settles {
    /// How many calls are under way.
    under_way: usize,
    at: Instant,
    verdicts: Vec<Conclusion>,
    /// When the first of them came.
    verdicts_since: Instant,
    /// What was confirmed since the feed was last told, if it is to be told.
    pub(super) confirmed: Vec<Held>,
    /// How long the last call took.
    took: Duration,
    /// Groups that failed and are tried again, at last apart.
    again: VecDeque<Group>,
    /// The last call failed: whatever came since goes first.
    failed: bool,
}

impl Settles {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            under_way: 0,
            at: now,
            verdicts: Vec::new(),
            verdicts_since: now,
            confirmed: Vec::new(),
            took: Duration::ZERO,
            again: VecDeque::new(),
            failed: false,
        }
    }
}

/// Logs a failed attempt: the last one as a warning, earlier ones for debugging. A death without a chain of
/// errors is logged as a death only.
fn tell_failure(entry: &Entry, verdict: &Verdict, cause: Option<&str>) {
    let (route, event_id, event_type) = (&entry.route, entry.event_id, &entry.event_type);
    let attempt = entry.attempts;
    match (verdict, cause) {
        (Verdict::Dead { failure, .. }, Some(cause)) => {
            tracing::warn!(
                %route, %event_id, event_type, attempt, %failure, cause,
                "the last attempt failed; the entry is dead"
            );
        }
        (Verdict::Retry { failure, .. }, cause) => tracing::debug!(
            %route, %event_id, event_type, attempt, %failure, cause,
            "an attempt failed; the entry will be tried again"
        ),
        _ => {}
    }
}

impl Pipeline<'_> {
    pub(super) fn on_report(&mut self, report: Reported) {
        let Reported { batch, index, outcome } = report;
        self.judge(batch, index, outcome);
    }

    pub(super) fn on_delivered(&mut self, id: BatchId, ended: Ended) {
        let Some(batch) = self.flight.batches.get_mut(&id) else { return };
        batch.delivering = None;
        let (entries, took) = (&batch.entries, batch.started);
        self.relay.observer.tell(|observer| observer.published(entries, took.elapsed()));
        if batch.unsettled == 0 {
            self.flight.drop_batch(id);
            return;
        }
        if batch.release_rest && ended == Ended::Aborted {
            self.release_open(id);
            return;
        }
        let open: Vec<usize> = (0..batch.open.len()).filter(|index| batch.open[*index]).collect();
        if !open.is_empty() {
            tracing::warn!(
                route = %self.relay.route, ?ended, entries = open.len(),
                "the delivery ended without an outcome for some entries; they count as failed attempts"
            );
        }
        for index in open {
            self.judge(id, index, unreported(ended));
        }
    }

    /// Gives an entry its verdict, once.
    fn judge(&mut self, id: BatchId, index: usize, mut outcome: Outcome) {
        let random = self.random();
        let Some(batch) = self.flight.batches.get_mut(&id) else { return };
        if !batch.close(index) {
            return;
        }
        self.heed(id, &outcome, random);
        let Some(batch) = self.flight.batches.get(&id) else { return };
        let entry = &batch.entries[index];
        let cause = outcome.failure_mut().and_then(Failure::take_cause);
        let data = match &mut outcome {
            Outcome::ConfirmedWith(data) => Some(data.take()),
            _ => None,
        };
        let verdict = verdict(outcome, entry, &self.relay.options, random);
        tell_failure(entry, &verdict, cause.as_deref());
        let conclusion = Conclusion::new(entry, verdict, data);
        if self.nature.follows_confirmed && conclusion.verdict == Verdict::Delivered {
            self.settles.confirmed.push(conclusion.held);
        }
        self.conclude(conclusion);
    }

    /// Keeps a verdict for the next settle.
    pub(super) fn conclude(&mut self, conclusion: Conclusion) {
        if self.settles.verdicts.is_empty() {
            self.settles.verdicts_since = Instant::now();
        }
        self.settles.verdicts.push(conclusion);
    }

    /// Gives back every entry of a batch that has no verdict yet.
    pub(super) fn release_open(&mut self, id: BatchId) {
        let Some(batch) = self.flight.batches.get_mut(&id) else { return };
        let open: Vec<usize> = (0..batch.open.len()).filter(|index| batch.close(*index)).collect();
        let release = |index: usize| Conclusion::new(&batch.entries[index], Verdict::release(None), None);
        let released: Vec<Conclusion> = open.into_iter().map(release).collect();
        released.into_iter().for_each(|conclusion| self.conclude(conclusion));
    }

    /// When the next settle is to be sent, as things are; `None`: something else must happen first.
    ///
    /// A call costs the store as much as dozens of verdicts. A destination that confirms one by one would have it
    /// settle all the time, a few verdicts at once, and take its strength from claims and from everybody else. So a
    /// few verdicts wait for more, a little longer than a call takes, unless none can come.
    pub(super) fn settle_wanted_at(&self) -> Option<Instant> {
        if self.settles.verdicts.is_empty() && self.settles.again.is_empty() {
            return None;
        }
        let batch = usize::try_from(self.relay.options.batch).unwrap_or(usize::MAX);
        if self.settles.under_way > 0 {
            // A second one only for a full batch, and not to a store that fails.
            let may = self.settles.under_way < self.nature.settles_max
                && !self.settles.failed
                && self.settles.again.is_empty();
            return (may && self.settles.verdicts.len() >= batch).then_some(self.settles.at);
        }
        let worth_a_call = batch / 2;
        let is_due = !self.settles.again.is_empty()
            || self.settles.verdicts.len() >= worth_a_call
            || self.settles.verdicts.len() >= self.flight.places.len();
        let gathering = self.settles.took.saturating_mul(GATHER_CALLS).min(GATHER_MAX);
        Some(if is_due {
            self.settles.at
        } else {
            self.settles.at.max(self.settles.verdicts_since + gathering)
        })
    }

    pub(super) fn start_settle(&mut self, now: Instant) {
        if self.settle_wanted_at().is_none_or(|at| now < at) {
            return;
        }
        let fresh_first = self.settles.failed && !self.settles.verdicts.is_empty();
        let again = if fresh_first { None } else { self.settles.again.pop_front() };
        let group = again.unwrap_or_else(|| {
            let most = usize::try_from(BATCH_MAX).unwrap_or(usize::MAX).min(self.settles.verdicts.len());
            let rest = self.settles.verdicts.split_off(most);
            Group { conclusions: std::mem::replace(&mut self.settles.verdicts, rest), failures: 0 }
        });
        self.settles.under_way += 1;
        let feed = Arc::clone(&self.relay.feed);
        let recording = Recording {
            owner: self.relay.owner.clone(),
            conclusions: group.conclusions.clone(),
            keep: self.relay.options.keep,
        };
        let lease = self.relay.options.lease;
        let settled = group.conclusions.iter().filter_map(|one| self.flight.entry(one.held));
        let span = self.relay.traces.settle(&self.relay.route, settled);
        self.underway.push(Box::pin(async move {
            let sent = Instant::now();
            let result = bounded(lease, feed.settle(recording)).instrument(span.clone()).await;
            if let Err(error) = &result {
                trace::refused(&span, error);
            }
            Completion::Settled { group, sent, result }
        }));
    }

    pub(super) fn on_settled(&mut self, group: Group, sent: Instant, result: Result<Recorded>) {
        self.settles.under_way -= 1;
        self.settles.took = sent.elapsed();
        let Group { mut conclusions, failures } = group;
        let (fenced, left) = match result {
            Ok(Recorded { fenced, left: None }) => (fenced, None),
            Ok(Recorded { fenced, left: Some((held, error)) }) => {
                let held: BTreeSet<Held> = held.into_iter().collect();
                let (left, recorded) = conclusions.into_iter().partition(|one| held.contains(&one.held));
                conclusions = recorded;
                (fenced, Some((left, error)))
            }
            Err(error) => (Vec::new(), Some((std::mem::take(&mut conclusions), error))),
        };
        self.settles.failed = left.is_some();
        let before = self.tally;
        self.record(conclusions, &fenced);
        let (outcomes, took) = (self.tally.since(&before), self.settles.took);
        self.relay.observer.tell(|observer| observer.settled(&outcomes, took));
        match left {
            None => {
                self.store_failures = 0;
                self.claim_followers(1, Instant::now());
            }
            // The settle carries fences: sending it again is safe even if the first one took effect.
            Some((left, error)) if error.retry() != Retry::Never => {
                let wait = self.store_failed(StoreCall::Settle, error);
                self.settles.at = Instant::now() + wait;
                let conclusions = self.leave_expired(left, wait);
                self.settle_again(Group { conclusions, failures: failures + 1 });
            }
            Some((left, error)) => self.settle_apart(left, error),
        }
    }

    /// Puts verdicts at the end of the line. One of them may be what keeps them all waiting, such as a row that
    /// somebody has locked: groups that fail again and again are halved, until it waits alone.
    fn settle_again(&mut self, mut group: Group) {
        if group.failures >= FAILURES_TOGETHER_MAX && group.conclusions.len() > 1 {
            let conclusions = group.conclusions.split_off(group.conclusions.len() / 2);
            group.failures = 0;
            self.settles.again.push_back(Group { conclusions, failures: 0 });
        }
        if !group.conclusions.is_empty() {
            self.settles.again.push_back(group);
        }
    }

    /// One verdict that the store refuses must not run the rest of its batch again: try the halves apart.
    fn settle_apart(&mut self, mut conclusions: Vec<Conclusion>, error: Error) {
        let hopeless = matches!(error.kind(), ErrorKind::Schema | ErrorKind::Denied | ErrorKind::Unsupported);
        if conclusions.len() > 1 && !hopeless {
            let second = conclusions.split_off(conclusions.len() / 2);
            self.settles.again.push_front(Group { conclusions: second, failures: 0 });
            self.settles.again.push_front(Group { conclusions, failures: 0 });
            return;
        }
        tracing::error!(
            route = %self.relay.route, %error, entries = conclusions.len(),
            "the outcome of these entries cannot be recorded; when their lease ends, they are delivered again"
        );
        for conclusion in conclusions {
            self.forget(conclusion.held);
        }
        // A daemon goes on with the other entries; a one-shot run returns the error to its caller.
        if error.kind() == ErrorKind::Schema || self.until != Until::Stopped {
            self.fatal.get_or_insert(error.context("settle"));
        }
    }

    /// Drops verdicts whose lease will have ended by the next try: the next owner delivers these entries
    /// again.
    fn leave_expired(&mut self, conclusions: Vec<Conclusion>, wait: Duration) -> Vec<Conclusion> {
        let then = Instant::now() + wait;
        // Once the run is to end, it does not wait for a store that is gone.
        let stopping = self.fatal.is_some() || self.grace_end.is_some_and(|end| then > end);
        let (kept, late): (Vec<_>, Vec<_>) = conclusions.into_iter().partition(|conclusion| {
            let batch =
                self.flight.places.get(&conclusion.held).and_then(|place| self.flight.batches.get(&place.0));
            !stopping && batch.is_some_and(|batch| batch.lease_end > then)
        });
        for conclusion in &late {
            self.forget(conclusion.held);
        }
        kept
    }

    fn record(&mut self, conclusions: Vec<Conclusion>, fenced: &[Held]) {
        let fenced: BTreeSet<Held> = fenced.iter().copied().collect();
        let mut deaths = Vec::new();
        for conclusion in conclusions {
            let held = conclusion.held;
            if fenced.contains(&held) {
                self.tally.fenced += 1;
            } else {
                match conclusion.verdict {
                    Verdict::Delivered => self.tally.delivered += 1,
                    Verdict::Retry { .. } | Verdict::Park { .. } => self.tally.retried += 1,
                    Verdict::Release { .. } => self.tally.released += 1,
                    Verdict::Dead { failure, .. } => {
                        self.tally.dead += 1;
                        deaths.extend(self.flight.death_of(held, failure));
                    }
                }
            }
            self.forget(held);
        }
        self.tell_deaths(&deaths);
        if !fenced.is_empty() {
            let lease = format_duration(self.relay.options.lease);
            tracing::warn!(
                route = %self.relay.route, entries = fenced.len(),
                "entries were settled after their lease had ended, so another relay owns them now; they may \
                 be delivered twice. If this repeats, raise `lease` (now {lease})"
            );
        }
    }

    /// Tells of deaths, which are durable by now: one line for all of one reason, and the hook for each. A hook that
    /// panics changes nothing.
    pub(super) fn tell_deaths(&self, deaths: &[Death]) {
        let mut alike: BTreeMap<String, Vec<&Death>> = BTreeMap::new();
        for death in deaths {
            alike.entry(death.failure.to_string()).or_default().push(death);
        }
        for (failure, deaths) in alike {
            let Some(first) = deaths.first() else { continue };
            tracing::error!(
                route = %first.route, event_id = %first.event_id, attempts = first.attempts, %failure,
                entries = deaths.len(),
                "entries are dead: they were given up for this reason. event_id is the first of them; \
                 `pillarbox list --status dead` shows them all"
            );
        }
        let Some(hook) = &self.relay.on_death else { return };
        for death in deaths {
            if catch_unwind(AssertUnwindSafe(|| hook(death))).is_err() {
                tracing::error!(
                    event_id = %death.event_id,
                    "the on_death hook panicked; the entry stays dead"
                );
            }
        }
    }

    /// The claim is no longer ours to settle.
    fn forget(&mut self, held: Held) {
        self.suspects.ended(held);
        self.flight.forget(held);
    }
}
