//! Settling steps: decided from what is held now, and applied only if that still holds.

use std::collections::BTreeMap;

use pillarbox_core::port::{Keep, StepOutcome, StepSettleRequest, StepsSettled};
use pillarbox_core::{
    Action, Direction, EntryMove, EntryWork, EventId, EventLimits, NewAudit, NewEntry, Result, SagaId,
    SagaRecord, SagaWork, StepSeen, Timestamp,
};

use crate::memory::mutant::Mutant;
use crate::memory::outbox::row_of;
use crate::memory::state::{Key, Row, State};

impl State {
    /// What would become of the sagas of these steps, and what of the request is not theirs.
    pub(super) fn plan_steps(
        &mut self,
        request: &StepSettleRequest,
        now: Timestamp,
    ) -> Result<(Vec<SagaWork>, StepsSettled)> {
        let mut settled = StepsSettled::default();
        let mut planned: BTreeMap<SagaId, SagaWork> = BTreeMap::new();
        for settlement in &request.settlements {
            let Some(row) = self.held(settlement.held) else {
                settled.fenced.push(settlement.held);
                continue;
            };
            let seen = StepSeen::from(&row.entry);
            let group = row.entry.group_id.as_deref().and_then(|group| group.parse::<SagaId>().ok());
            let Some(saga) = group.and_then(|id| self.sagas.get(&id)) else {
                settled.plain.push(settlement.held);
                continue;
            };
            let saga = SagaRecord::read(saga.clone())?;
            let one = planned.entry(saga.id).or_insert_with(|| SagaWork::new(saga));
            let goes_back = matches!(settlement.outcome, StepOutcome::Dead { .. })
                || one
                    .saga
                    .find(seen.event_id)
                    .is_some_and(|(_, direction)| direction == Direction::Compensation);
            let reversed = goes_back && self.is(Mutant::CompensatesForward);
            if reversed {
                one.saga.steps.reverse();
            }
            one.settle(seen, &settlement.outcome, now)?;
            if reversed {
                one.saga.steps.reverse();
            }
            settled.accepted += 1;
        }
        Ok((planned.into_values().collect(), settled))
    }

    /// Applies what was planned, or says that something has changed since.
    pub(super) fn settle_steps(
        &mut self,
        request: &StepSettleRequest,
        planned: Vec<SagaWork>,
        now: Timestamp,
    ) -> Result<Option<Vec<SagaId>>> {
        if !planned.iter().all(|one| self.still_holds(one)) {
            return Ok(None);
        }
        self.check_audit(planned.iter().any(|one| !one.moves.audit.is_empty()))?;
        let mut ended = Vec::new();
        for one in planned {
            ended.extend(one.moves.ended.then_some(one.saga.id));
            self.apply(one, &request.owner, request.keep, now)?;
        }
        Ok(Some(ended))
    }

    /// Whether a saga and its entries are as they were when this was decided.
    pub(super) fn still_holds(&self, work: &SagaWork) -> bool {
        let same = |entry: &EntryWork| {
            let row = self.rows.get(&entry.held.seq);
            row.is_some_and(|row| row.entry.fence == entry.held.fence && row.entry.status == entry.seen)
        };
        let saga = self.sagas.get(&work.saga.id);
        saga.is_some_and(|saga| saga.version == work.version || self.is(Mutant::CompletesWithoutLock))
            && work.entries().iter().all(same)
    }

    /// Audit records, entries, new entries, the saga's row: in this order.
    pub(super) fn apply(&mut self, planned: SagaWork, actor: &str, keep: Keep, now: Timestamp) -> Result<()> {
        let entries = planned.entries();
        let SagaWork { mut saga, moves, .. } = planned;
        self.record_saga(&moves.audit, actor, now);
        for entry in entries {
            self.change_entry(entry.held.seq, entry.change, keep, now);
        }
        for event in moves.stage {
            let fresh = EventId(saga.id.0);
            let stamp = pillarbox_core::Hlc::from_raw(0)?;
            let new = NewEntry::new(&saga.route, event, fresh, stamp, &EventLimits::default())?;
            let key = Key::Staged(new.route.clone(), new.event_id);
            if !self.taken.insert(key) {
                continue;
            }
            let seq = self.next_seq();
            let mut entry = row_of(new, seq, now);
            entry.hlc = None;
            self.rows.insert(seq, Row::new(entry));
        }
        saga.version += 1;
        self.sagas.insert(saga.id, saga.columns()?);
        Ok(())
    }

    pub(super) fn record_saga(&mut self, records: &[NewAudit], actor: &str, now: Timestamp) {
        for record in records {
            let of = (Some(record.route.clone()), record.event_id);
            let at = self.push_audit(now, record.kind, actor, of, record.detail.clone());
            at.saga_id = Some(record.saga_id);
            at.subject = Some(record.subject.clone());
            at.step = record.step.clone();
        }
    }

    fn change_entry(&mut self, seq: i64, change: EntryMove, keep: Keep, now: Timestamp) {
        if change == EntryMove::Deliver {
            return self.deliver(seq, keep, now);
        }
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.entry.owner = None;
        row.entry.due_at = None;
        match change {
            EntryMove::Deliver => {}
            EntryMove::Bury(failure) => {
                if row.entry.status != pillarbox_core::Status::Dead {
                    row.step(Action::Bury);
                }
                row.entry.last_error = Some(failure);
                row.entry.settled_at = Some(now);
            }
            EntryMove::Discard(failure) => {
                if row.entry.status != pillarbox_core::Status::Dead {
                    row.step(Action::Bury);
                }
                row.step(Action::Discard);
                row.entry.last_error = Some(failure);
                row.entry.settled_at = Some(now);
            }
            EntryMove::Requeue => {
                row.step(Action::Requeue);
                (row.entry.attempts, row.entry.crashes) = (0, 0);
                row.entry.settled_at = None;
            }
        }
    }
}
