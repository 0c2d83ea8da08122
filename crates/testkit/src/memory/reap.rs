//! Returning what nobody holds any more, and burying what has no attempts left.

use pillarbox_core::port::{Death, Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{Action, Entry, Failure, Result, Status, Timestamp, attempts_counted};

use super::mutant::Mutant;
use super::state::{Row, State};

impl State {
    /// Rows, and sessions of lanes: a relay of either kind returns what the other kind left.
    pub(crate) fn reap(&mut self, request: &ReapRequest, now: Timestamp) -> Result<Reaped> {
        let sessions = self.reap_sessions(request, now)?;
        let mut reaped = self.reap_rows(request, now)?.with_sessions(sessions);
        let steps = request.steps == Steps::Take;
        let mut meant = self.rows.values().map(|row| &row.entry).filter(|entry| steps || !entry.is_step());
        reaped.suspects = meant.any(Entry::is_suspect);
        Ok(reaped)
    }

    pub(crate) fn reap_rows(&mut self, request: &ReapRequest, now: Timestamp) -> Result<Reaped> {
        let convicts = self.is(Mutant::CrashConvicts);
        let is_spent = |entry: &Entry, request: &ReapRequest| is_spent(entry, request, convicts);
        let found: Vec<Entry> = self
            .rows
            .values()
            .filter(|row| request.route.as_ref().is_none_or(|route| *route == row.entry.route))
            .filter(|row| !row.entry.status.is_terminal() && is_over(row, request, now))
            .map(|row| &row.entry)
            .filter(|entry| request.steps == Steps::Take || !entry.is_step())
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
                self.put_back(entry.seq);
                self.revise(entry.seq);
                reaped.released += 1;
            }
        }
        Ok(reaped)
    }

    /// The attempt stays counted, because the relay that held it may have delivered it. It is now a suspect.
    fn put_back(&mut self, seq: i64) {
        if self.is(Mutant::ReapForgetsEntry) {
            self.remove(seq);
            return;
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        // Before it is put back: what ended last was a lease, whatever an earlier attempt had died of.
        let failure = failure_of(&row.entry);
        row.step(Action::Reap);
        row.entry.crashes += 1;
        row.entry.due_at = None;
        row.entry.owner = None;
        row.entry.last_error = Some(failure);
    }
}

/// Due, or under a lease that has ended or begins later than it is long.
fn is_over(row: &Row, request: &ReapRequest, now: Timestamp) -> bool {
    let impossible = request.leases == Leases::Impossible && row.entry.status == Status::InFlight;
    let begins_late = || begins_late(row.leased_at?, row.entry.due_at?, now).then_some(());
    row.entry.due_at.is_none_or(|due| due <= now) || (impossible && begins_late().is_some())
}

/// Whether a lease begins later than it is long: the clock was set back since.
pub(super) fn begins_late(from: Timestamp, until: Timestamp, now: Timestamp) -> bool {
    let micros = |at: Timestamp| at.as_micros();
    micros(from).saturating_sub(micros(now)) > micros(until).saturating_sub(micros(from))
}

/// With the lease that has just expired, if it had one.
fn is_spent(entry: &Entry, request: &ReapRequest, convicts: bool) -> bool {
    let crashes = entry.crashes + u32::from(entry.status == Status::InFlight);
    let counted = if convicts { entry.attempts } else { attempts_counted(entry.attempts, crashes) };
    entry.max_attempts.or(request.max_attempts).is_some_and(|max| counted >= max)
}

fn failure_of(entry: &Entry) -> Failure {
    match &entry.last_error {
        Some(failure) if entry.status != Status::InFlight => failure.clone(),
        _ => Failure::lease_expired(),
    }
}
