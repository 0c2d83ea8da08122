//! What follows for a saga when one of its entries has reached its end.

use serde_json::Value;

use crate::audit::AuditKind;
use crate::error::Result;
use crate::event::EventId;
use crate::outcome::{Failure, FailureKind};
use crate::time::Timestamp;

use super::definition::SagaOrder;
use super::moves::{EntryMove, Moves};
use super::record::SagaRecord;
use super::states::{Direction, SagaStatus, StepState};
use super::step::StepKind;

impl SagaRecord {
    /// Starts the saga: all steps of a group, or the first step of an ordered saga.
    ///
    /// # Errors
    /// When a step cannot be written as an event.
    pub fn start(&mut self) -> Result<Moves> {
        let mut moves = Moves::default();
        let first = if self.order == SagaOrder::Steps { 1 } else { self.steps.len() };
        for at in 0..first {
            self.stage(at, Direction::Forward, &mut moves)?;
        }
        self.due_at = self.sweep_at();
        Ok(moves)
    }

    /// Records that the handler of an entry has done its work, now or before.
    ///
    /// # Errors
    /// When the next step cannot be written as an event.
    pub fn done(&mut self, event_id: EventId, data: Option<Value>, now: Timestamp) -> Result<Moves> {
        let mut moves = Moves { entries: vec![(event_id, EntryMove::Deliver)], ..Moves::default() };
        let Some((at, direction)) = self.find(event_id) else { return Ok(moves) };
        let step = &mut self.steps[at];
        let name = step.name.clone();
        match (direction, step.state) {
            // A dead one may have been requeued since.
            (Direction::Forward, StepState::Running | StepState::Dead) => {
                step.state = StepState::Done;
                step.error = None;
                step.data = data.unwrap_or(Value::Null);
                moves.note(self, AuditKind::StepSucceeded, Some((&name, event_id)), "");
                self.go_on(now, &mut moves)?;
            }
            (Direction::Compensation, StepState::Compensating | StepState::CompensationFailed) => {
                step.state = StepState::Compensated;
                step.error = None;
                moves.note(self, AuditKind::StepCompensated, Some((&name, event_id)), "");
                self.go_back(now, &mut moves)?;
            }
            // A report about it no longer changes the state of the saga.
            _ => {}
        }
        self.updated_at = now;
        self.due_at = self.sweep_at();
        Ok(moves)
    }

    /// Records that an entry is given up. `began_before`: an earlier attempt may have begun its work.
    ///
    /// # Errors
    /// When a compensation cannot be written as an event.
    pub fn given_up(
        &mut self,
        event_id: EventId,
        began_before: bool,
        failure: Failure,
        now: Timestamp,
    ) -> Result<Moves> {
        let mut moves = Moves::default();
        let bury = (event_id, EntryMove::Bury(failure.clone()));
        let Some((at, direction)) = self.find(event_id) else {
            moves.entries.push(bury);
            return Ok(moves);
        };
        let kind = self.steps[at].kind;
        match (direction, self.steps[at].state) {
            (Direction::Forward, StepState::Running | StepState::Dead) => {
                let goes_back = kind != StepKind::Retryable && !is_unknown(&failure);
                self.fail(at, event_id, &failure, &mut moves);
                if goes_back {
                    let may_have_run = began_before || !did_nothing(&failure);
                    self.turn_back(at, event_id, may_have_run, failure, now, &mut moves)?;
                } else {
                    self.steps[at].state = StepState::Dead;
                    self.status = SagaStatus::Blocked;
                    moves.entries.push(bury);
                }
            }
            (Direction::Compensation, StepState::Compensating | StepState::CompensationFailed) => {
                self.steps[at].state = StepState::CompensationFailed;
                self.steps[at].error = Some(failure.to_string());
                self.status = SagaStatus::CompensationFailed;
                let name = self.steps[at].name.clone();
                moves.note(self, AuditKind::CompensationFailed, Some((&name, event_id)), abandoned(&failure));
                moves.entries.push(bury);
                // The rest is undone all the same.
                self.go_back(now, &mut moves)?;
            }
            _ => moves.entries.push(bury),
        }
        self.updated_at = now;
        self.due_at = self.sweep_at();
        Ok(moves)
    }

    /// Records that a step failed. The caller decides what follows.
    pub(super) fn fail(&mut self, at: usize, event_id: EventId, failure: &Failure, moves: &mut Moves) {
        self.steps[at].error = Some(failure.to_string());
        let name = self.steps[at].name.clone();
        moves.note(self, AuditKind::StepFailed, Some((&name, event_id)), abandoned(failure));
    }

    /// Undoes the steps that may have run, in reverse order. The entry of the failed step is discarded, so that no
    /// relay runs it again.
    pub(super) fn turn_back(
        &mut self,
        failed: usize,
        event_id: EventId,
        may_have_run: bool,
        failure: Failure,
        now: Timestamp,
        moves: &mut Moves,
    ) -> Result<()> {
        moves.entries.push((event_id, EntryMove::Discard(failure)));
        let undo = may_have_run && self.steps[failed].compensation.is_some();
        self.steps[failed].state = if undo { StepState::Undoing } else { StepState::Failed };
        self.undo_done(moves);
        self.go_back(now, moves)
    }

    /// Marks every step that is done as one to undo.
    pub(super) fn undo_done(&mut self, moves: &mut Moves) {
        for step in self.steps.iter_mut().filter(|step| step.state == StepState::Done) {
            step.state = StepState::Undoing;
        }
        self.status = SagaStatus::Compensating;
        moves.note(self, AuditKind::Compensating, None, "");
    }

    /// Goes forward: to the next step, or to the end.
    pub(super) fn go_on(&mut self, now: Timestamp, moves: &mut Moves) -> Result<()> {
        let dead = self.steps.iter().any(|step| matches!(step.state, StepState::Dead | StepState::Abandoned));
        self.status = if dead { SagaStatus::Blocked } else { SagaStatus::Running };
        if self.steps.iter().all(|step| matches!(step.state, StepState::Done | StepState::Skipped)) {
            self.status = SagaStatus::Completed;
            self.ended_at = Some(now);
            moves.note(self, AuditKind::Completed, None, "");
            moves.ended = true;
            return Ok(());
        }
        if self.order == SagaOrder::Any || dead {
            return Ok(());
        }
        if self.may_turn_back() && self.is_overdue(now) {
            self.undo_done(moves);
            return self.go_back(now, moves);
        }
        match self.steps.iter().position(|step| step.state == StepState::Waiting) {
            Some(next) => self.stage(next, Direction::Forward, moves),
            None => Ok(()),
        }
    }

    /// Goes back: undoes the latest step that is to be undone, one at a time, or ends the saga.
    pub(super) fn go_back(&mut self, now: Timestamp, moves: &mut Moves) -> Result<()> {
        if self.steps.iter().any(|step| step.state == StepState::Compensating) {
            return Ok(());
        }
        if let Some(at) = self.steps.iter().rposition(|step| step.state == StepState::Undoing) {
            return self.stage(at, Direction::Compensation, moves);
        }
        let failed = [StepState::CompensationFailed, StepState::Abandoned];
        if self.steps.iter().any(|step| failed.contains(&step.state)) {
            self.status = SagaStatus::CompensationFailed;
            return Ok(());
        }
        self.status = SagaStatus::Compensated;
        self.ended_at = Some(now);
        moves.note(self, AuditKind::Compensated, None, "");
        moves.ended = true;
        Ok(())
    }

    fn stage(&mut self, at: usize, direction: Direction, moves: &mut Moves) -> Result<()> {
        if let Some(event) = self.event_of(at, direction)? {
            moves.stage.push(event);
            self.steps[at].state = match direction {
                Direction::Forward => StepState::Running,
                Direction::Compensation => StepState::Compensating,
            };
        }
        Ok(())
    }

    /// Whether the saga can still go back. It must be ordered and under way. It must be neither past its pivot nor
    /// at a step that only goes forward.
    pub(super) fn may_turn_back(&self) -> bool {
        let passed = |step: &super::StepRecord| match step.kind {
            StepKind::Compensatable => false,
            StepKind::Pivot => step.state == StepState::Done,
            StepKind::Retryable => step.state != StepState::Waiting,
        };
        self.order == SagaOrder::Steps && self.status == SagaStatus::Running && !self.steps.iter().any(passed)
    }

    /// When a sweep must look at the saga: at its deadline, while the deadline can still change something.
    pub(super) fn sweep_at(&self) -> Option<Timestamp> {
        self.deadline().filter(|_| self.may_turn_back())
    }
}

/// Whether it is unknown if the handler has done the step. Going back would be a guess.
pub(super) fn is_unknown(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Unknown | FailureKind::LeaseExpired)
}

/// Whether this failure, on a first attempt, means that nothing was done.
fn did_nothing(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Rejected | FailureKind::UnknownHandler | FailureKind::Undecodable)
}

fn abandoned(failure: &Failure) -> String {
    format!("abandoned: {failure}")
}
