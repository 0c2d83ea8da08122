//! What a saga learns from its entries: deaths by a reap, requeues, its own deadline.

use crate::entry::{Entry, Held};
use crate::error::Result;
use crate::event::EventId;
use crate::outcome::{Failure, FailureKind};
use crate::status::Status;
use crate::time::Timestamp;

use super::decide::is_unknown;
use super::moves::Moves;
use super::record::SagaRecord;
use super::states::{Direction, SagaStatus, StepState};

/// An entry of a saga as a sweep sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSeen {
    /// The row and its fence.
    pub held: Held,
    /// The event's id.
    pub event_id: EventId,
    /// The entry's status.
    pub status: Status,
    /// The entry's attempts.
    pub attempts: u32,
    /// The failure of the last failed attempt.
    pub last_error: Option<Failure>,
}

impl From<&Entry> for StepSeen {
    fn from(entry: &Entry) -> Self {
        Self {
            held: entry.held(),
            event_id: entry.event_id,
            status: entry.status,
            attempts: entry.attempts,
            last_error: entry.last_error.clone(),
        }
    }
}

impl StepSeen {
    /// Whether an attempt before this one may have begun. The number of attempts alone does not tell: a release
    /// gives one back, and a park or a requeue gives back all of them. But each of these leaves a failure with its
    /// reason.
    #[must_use]
    pub fn began_before(&self) -> bool {
        self.attempts > 1 || self.last_error.is_some()
    }
}

impl SagaRecord {
    /// Brings the saga up to date with its entries. If it was up to date, the moves are empty.
    ///
    /// # Errors
    /// When a step cannot be written as an event.
    pub fn reconcile(&mut self, seen: &[StepSeen], now: Timestamp) -> Result<Moves> {
        let mut moves = Moves::default();
        for entry in seen {
            let Some((at, _)) = self.find(entry.event_id) else { continue };
            match (self.steps[at].state, entry.status) {
                (StepState::Running | StepState::Compensating, Status::Dead)
                    if self.is_current(at, entry.event_id) =>
                {
                    let failure = entry.last_error.clone().unwrap_or_else(no_reason);
                    moves.append(self.given_up(entry.event_id, true, failure, now)?);
                }
                (StepState::Dead, status) if self.is_current(at, entry.event_id) && !status.is_terminal() => {
                    self.steps[at].state = StepState::Running;
                    self.unblock();
                }
                (StepState::CompensationFailed, status)
                    if self.is_current(at, entry.event_id) && !status.is_terminal() =>
                {
                    self.steps[at].state = StepState::Compensating;
                    self.unblock();
                }
                _ => {}
            }
        }
        self.note_discarded(seen);
        if self.is_overdue(now) && self.may_turn_back() {
            self.expire(seen, now, &mut moves)?;
        }
        // Asked for by an operator, with nothing to undo: the relay with the callback ends the saga.
        if self.status == SagaStatus::Compensating {
            self.go_back(now, &mut moves)?;
        }
        // An operator skipped the last step that held it: the relay with the callback does the next step, or
        // the end.
        let holds = |step: &super::StepRecord| {
            matches!(step.state, StepState::Running | StepState::Dead | StepState::Abandoned)
        };
        if self.status == SagaStatus::Running && !self.steps.iter().any(holds) {
            self.go_on(now, &mut moves)?;
        }
        self.due_at = self.sweep_at().filter(|due| *due > now).or_else(|| {
            // The step is in flight: its outcome is not known yet. Look again soon.
            self.sweep_at().map(|_| now.saturating_add(std::time::Duration::from_secs(1)))
        });
        Ok(moves)
    }

    /// Abandons the dead steps whose entry was discarded or is gone, because no operator can requeue it any more.
    fn note_discarded(&mut self, seen: &[StepSeen]) {
        for at in 0..self.steps.len() {
            if !self.steps[at].state.is_dead() {
                continue;
            }
            let entry = seen.iter().find(|entry| self.is_current(at, entry.event_id));
            if entry.is_none_or(|entry| entry.status == Status::Discarded) {
                self.steps[at].state = StepState::Abandoned;
            }
        }
    }

    /// Handles a saga past its deadline. A step that no relay is running is given up, and the steps that may have
    /// run are undone.
    fn expire(&mut self, seen: &[StepSeen], now: Timestamp, moves: &mut Moves) -> Result<()> {
        let Some(at) = self.steps.iter().position(|step| step.state == StepState::Running) else {
            return Ok(());
        };
        let key = self.key_of(&self.steps[at].name, Direction::Forward);
        let waiting = seen.iter().find(|entry| {
            entry.event_id == key && matches!(entry.status, Status::Pending | Status::Retrying)
        });
        let Some(entry) = waiting else { return Ok(()) };
        let last = entry.last_error.clone();
        if last.as_ref().is_some_and(is_unknown) {
            // Not known whether it ran: it is tried again under the same key until that is known.
            return Ok(());
        }
        let failure = Failure::new(FailureKind::Failed, "deadline", "the saga took longer than its timeout");
        self.fail(at, key, &failure, moves);
        self.turn_back(at, key, entry.attempts > 0 || entry.last_error.is_some(), failure, now, moves)?;
        self.updated_at = now;
        Ok(())
    }

    /// Whether this entry is the one that the step's state refers to.
    fn is_current(&self, at: usize, event_id: EventId) -> bool {
        let direction = match self.steps[at].state {
            StepState::Compensating | StepState::CompensationFailed => Direction::Compensation,
            _ => Direction::Forward,
        };
        self.key_of(&self.steps[at].name, direction) == event_id
    }

    pub(super) fn unblock(&mut self) {
        let any = |state| self.steps.iter().any(|step| step.state == state);
        self.status = match self.status {
            _ if any(StepState::Abandoned) => self.status,
            SagaStatus::Blocked if !any(StepState::Dead) => SagaStatus::Running,
            SagaStatus::CompensationFailed if !any(StepState::CompensationFailed) => SagaStatus::Compensating,
            status => status,
        };
    }
}

fn no_reason() -> Failure {
    Failure::new(FailureKind::Failed, "dead", "its entry is dead, and no reason was recorded")
}
