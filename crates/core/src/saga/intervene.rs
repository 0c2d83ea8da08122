//! Interventions of operators: try again, undo, go on without a step, give up.

use crate::audit::AuditKind;
use crate::error::{Error, Result};
use crate::name::check_name;
use crate::outcome::{Failure, FailureKind};
use crate::port::Intervention;
use crate::status::Status;
use crate::time::Timestamp;

use super::definition::SagaOrder;
use super::moves::{EntryMove, Moves};
use super::reconcile::StepSeen;
use super::record::{SagaRecord, StepRecord};
use super::states::{Direction, SagaStatus, StepState};
use super::step::StepKind;

impl SagaRecord {
    /// Carries out an operator's intervention on a saga that is up to date with its entries.
    ///
    /// # Errors
    /// When it does not wait for an operator, or cannot go where it is asked to.
    pub fn intervene(&mut self, seen: &[StepSeen], what: &Intervention, now: Timestamp) -> Result<Moves> {
        let mut moves = Moves::default();
        match what {
            Intervention::Retry => self.retry(&mut moves)?,
            Intervention::Compensate => self.compensate(now, &mut moves)?,
            Intervention::Skip { step, reason } => self.skip(step, reason, now, &mut moves)?,
            Intervention::Abandon { reason } => self.abandon(seen, reason, now, &mut moves)?,
        }
        self.updated_at = now;
        Ok(moves)
    }

    fn retry(&mut self, moves: &mut Moves) -> Result<()> {
        self.check_stuck()?;
        let again = |step: &StepRecord| match step.state {
            StepState::Dead => Some((Direction::Forward, StepState::Running)),
            StepState::CompensationFailed => Some((Direction::Compensation, StepState::Compensating)),
            _ => None,
        };
        for at in 0..self.steps.len() {
            let Some((direction, state)) = again(&self.steps[at]) else { continue };
            let name = self.steps[at].name.clone();
            let key = self.key_of(&name, direction);
            moves.note(self, AuditKind::Resumed, Some((&name, key)), "retry");
            moves.entries.push((key, EntryMove::Requeue));
            self.steps[at].state = state;
        }
        if moves.entries.is_empty() {
            return Err(Error::invalid(
                "the dead entries of the saga no longer exist, so they cannot be retried. You can still \
                 compensate the saga, skip the step, or abandon the saga",
            ));
        }
        self.unblock();
        self.due_at = self.sweep_at();
        Ok(())
    }

    fn compensate(&mut self, now: Timestamp, moves: &mut Moves) -> Result<()> {
        self.check_stuck()?;
        let can_go_back = self.order == SagaOrder::Steps && self.status == SagaStatus::Blocked;
        let at = self.steps.iter().position(|step| {
            can_go_back
                && matches!(step.state, StepState::Dead | StepState::Abandoned)
                && step.kind != StepKind::Retryable
        });
        let Some(at) = at else {
            return Err(Error::invalid(
                "the saga cannot be compensated: it is a group, its pivot is done, or it is being \
                 compensated already. Resume it without compensation, skip the dead step, or abandon the \
                 saga",
            ));
        };
        let name = self.steps[at].name.clone();
        let key = self.key_of(&name, Direction::Forward);
        moves.note(self, AuditKind::Resumed, Some((&name, key)), "compensate");
        if self.steps[at].state == StepState::Dead {
            moves.entries.push((key, EntryMove::Discard(given_up())));
        }
        let undo = self.steps[at].compensation.is_some();
        self.steps[at].state = if undo { StepState::Undoing } else { StepState::Failed };
        self.undo_done(moves);
        // The relay goes on from here: what ends a saga is its, with the callback.
        self.due_at = Some(now);
        Ok(())
    }

    fn skip(&mut self, name: &str, reason: &str, now: Timestamp, moves: &mut Moves) -> Result<()> {
        check_name("the reason", reason)?;
        if self.status.is_ended() {
            return Err(Error::invalid(format!("the saga is {}: there is nothing to skip", self.status)));
        }
        let Some(at) = self.steps.iter().position(|step| step.name == name) else {
            let names: Vec<_> = self.steps.iter().map(|step| step.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "the saga has no step {name:?}; its steps are {}",
                names.join(", ")
            )));
        };
        let step = &self.steps[at];
        if step.kind != StepKind::Retryable {
            return Err(Error::invalid(format!(
                "step {name:?} cannot be skipped: only retryable steps can. Resume the saga, or compensate it"
            )));
        }
        if !matches!(step.state, StepState::Dead | StepState::Abandoned) {
            return Err(Error::invalid(format!(
                "step {name:?} is {}: only a dead or abandoned step can be skipped",
                step.state
            )));
        }
        let key = self.key_of(name, Direction::Forward);
        moves.note(self, AuditKind::StepSkipped, Some((name, key)), reason);
        if self.steps[at].state == StepState::Dead {
            moves.entries.push((key, EntryMove::Discard(given_up())));
        }
        self.steps[at].state = StepState::Skipped;
        self.unblock();
        if self.steps.iter().any(|step| step.state == StepState::Waiting) {
            self.go_on(now, moves)?;
            self.due_at = self.sweep_at();
        } else {
            // What may be left is the end, which is the relay's, with the callback.
            self.due_at = Some(now);
        }
        Ok(())
    }

    fn abandon(&mut self, seen: &[StepSeen], reason: &str, now: Timestamp, moves: &mut Moves) -> Result<()> {
        check_name("the reason", reason)?;
        if self.status.is_ended() {
            return Err(Error::invalid(format!("the saga is {}: there is nothing to abandon", self.status)));
        }
        moves.note(self, AuditKind::Abandoned, None, reason);
        let open = |entry: &&StepSeen| entry.status == Status::Dead || !entry.status.is_terminal();
        for entry in seen.iter().filter(open) {
            moves.entries.push((entry.event_id, EntryMove::Discard(given_up())));
        }
        // What was not begun stays as it is, and so does what was to be undone: it tells how far the saga had come.
        for step in &mut self.steps {
            let had_entry = matches!(
                step.state,
                StepState::Running
                    | StepState::Dead
                    | StepState::Compensating
                    | StepState::CompensationFailed
            );
            if had_entry {
                step.state = StepState::Abandoned;
            }
        }
        self.status = SagaStatus::Abandoned;
        self.ended_at = Some(now);
        self.due_at = None;
        moves.ended = true;
        Ok(())
    }

    fn check_stuck(&self) -> Result<()> {
        if self.status.is_stuck() {
            return Ok(());
        }
        Err(Error::invalid(format!("the saga is {}: there is nothing to resume", self.status)))
    }
}

fn given_up() -> Failure {
    Failure::new(FailureKind::Rejected, "operator", "an operator gave up on the step")
}
