//! Recording what came of claimed entries.

use pillarbox_core::port::{Keep, SettleRequest, Settled, Verdict};
use pillarbox_core::{Action, AuditKind, Failure, Result, Timestamp};

use super::mutant::Mutant;
use super::state::State;

impl State {
    /// The whole batch in one step: either every verdict on a claim that still stands is recorded, or, when a
    /// death cannot be audited, none is.
    pub(crate) fn settle(&mut self, request: SettleRequest, now: Timestamp) -> Result<Settled> {
        let mut deaths = false;
        for settlement in &request.settlements {
            let is_death = matches!(settlement.verdict, Verdict::Dead { .. });
            deaths |= is_death && self.held(settlement.held).is_some();
        }
        self.check_audit(deaths)?;

        let mut settled = Settled::default();
        for settlement in request.settlements {
            if self.held(settlement.held).is_none() {
                settled.fenced.push(settlement.held);
                continue;
            }
            settled.accepted += 1;
            let seq = settlement.held.seq;
            let revises = settlement.verdict != Verdict::Delivered;
            match settlement.verdict {
                Verdict::Delivered => self.deliver(seq, request.keep, now),
                Verdict::Retry { after, failure, .. } => self.retry(seq, now.saturating_add(after), failure),
                Verdict::Dead { failure, .. } => self.bury(seq, &request.owner, failure, now),
                Verdict::Release { failure, .. } => self.release(seq, failure),
                Verdict::Park { after, failure, .. } => self.park(seq, now.saturating_add(after), failure),
            }
            if revises {
                // Should the route be read by lanes: this entry was not theirs until now.
                self.revise(seq);
            }
        }
        Ok(settled)
    }

    pub(crate) fn deliver(&mut self, seq: i64, keep: Keep, now: Timestamp) {
        if keep == Keep::No {
            self.remove(seq);
            return;
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Deliver);
        row.entry.due_at = None;
        row.entry.owner = None;
        row.entry.last_error = None;
        row.entry.settled_at = Some(now);
    }

    pub(crate) fn retry(&mut self, seq: i64, due: Timestamp, failure: Failure) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Retry);
        row.entry.due_at = Some(due);
        row.entry.owner = None;
        row.entry.last_error = Some(failure);
    }

    /// Gives an entry up. The audit record comes before the status that it explains.
    pub(crate) fn bury(&mut self, seq: i64, actor: &str, failure: Failure, now: Timestamp) {
        let Some(row) = self.rows.get(&seq) else { return };
        let whose = (row.entry.route.clone(), row.entry.event_id);
        self.record(now, AuditKind::Dead, actor, Some(whose), failure.to_string());
        if self.is(Mutant::DeadIsDropped) {
            self.remove(seq);
            return;
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Bury);
        row.entry.due_at = None;
        row.entry.owner = None;
        row.entry.last_error = Some(failure);
        row.entry.settled_at = Some(now);
    }

    /// Looked at again later, with all of its attempts.
    fn park(&mut self, seq: i64, due: Timestamp, failure: Failure) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Park);
        (row.entry.attempts, row.entry.crashes) = (0, 0);
        row.entry.due_at = Some(due);
        row.entry.owner = None;
        row.entry.last_error = Some(failure);
    }

    fn release(&mut self, seq: i64, failure: Option<Failure>) {
        if self.is(Mutant::ReleaseLosesEntry) {
            self.remove(seq);
            return;
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.entry.attempts = row.entry.attempts.saturating_sub(1);
        row.step(if row.entry.attempts == 0 { Action::ReleaseFirst } else { Action::ReleaseLater });
        row.entry.due_at = None;
        row.entry.owner = None;
        row.entry.last_error = failure.or_else(|| row.entry.last_error.take());
    }
}
