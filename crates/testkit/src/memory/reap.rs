//! Returning what nobody holds any more, and burying what has no attempts left.

use pillarbox_core::port::{Death, Effect, ReapRequest, Reaped, Steps};
use pillarbox_core::{Action, Entry, Failure, FailureKind, Result, Status, Timestamp};

use super::mutant::Mutant;
use super::state::State;

impl State {
    pub(crate) fn reap(&mut self, request: &ReapRequest, now: Timestamp) -> Result<Reaped> {
        let found: Vec<Entry> = self
            .rows
            .values()
            .map(|row| &row.entry)
            .filter(|entry| request.steps == Steps::Take || !entry.is_step())
            .filter(|entry| request.route.as_ref().is_none_or(|route| *route == entry.route))
            .filter(|entry| !entry.status.is_terminal() && entry.due_at.is_none_or(|due| due <= now))
            .filter(|entry| entry.status == Status::InFlight || is_spent(entry, request))
            .filter(|entry| !self.locked.contains(&entry.seq))
            .take(usize::try_from(request.limit).unwrap_or(usize::MAX))
            .cloned()
            .collect();
        let stale = found.iter().filter(|entry| entry.status == Status::InFlight).count();
        let mut reaped = Reaped { stale: u64::try_from(stale).unwrap_or(u64::MAX), ..Reaped::default() };
        if request.effect == Effect::DryRun {
            return Ok(reaped);
        }
        self.check_audit(found.iter().any(|entry| is_spent(entry, request)))?;
        for entry in found {
            if is_spent(&entry, request) {
                let failure = failure_of(&entry);
                self.bury(entry.seq, &request.owner, failure.clone(), now);
                reaped.dead.push(Death {
                    event_id: entry.event_id,
                    route: entry.route,
                    event_type: entry.event_type,
                    attempts: entry.attempts,
                    failure,
                });
            } else {
                self.put_back(entry.seq, failure_of(&entry));
                reaped.released += 1;
            }
        }
        Ok(reaped)
    }

    /// The attempt stays counted: whoever held it may have delivered it.
    fn put_back(&mut self, seq: i64, failure: Failure) {
        if self.is(Mutant::ReapForgetsEntry) {
            self.remove(seq);
            return;
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Reap);
        row.entry.due_at = None;
        row.entry.owner = None;
        row.entry.last_error = Some(failure);
    }
}

fn is_spent(entry: &Entry, request: &ReapRequest) -> bool {
    entry.max_attempts.or(request.max_attempts).is_some_and(|max| entry.attempts >= max)
}

fn failure_of(entry: &Entry) -> Failure {
    match &entry.last_error {
        Some(failure) if entry.status != Status::InFlight => failure.clone(),
        _ => Failure::new(
            FailureKind::LeaseExpired,
            "lease_expired",
            "nobody settled it before its lease ended",
        ),
    }
}
