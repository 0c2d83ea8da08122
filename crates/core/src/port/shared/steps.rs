//! Deciding what follows from the outcomes of steps, saga by saga.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::port::{StepSettlement, StepsSettled, Swept};
use crate::saga::{SagaId, SagaRecord, SagaWork, StepSeen};
use crate::time::Timestamp;

/// What follows from the outcomes of some steps: what to write for their sagas, and which claims belong to no saga.
#[derive(Debug, Default)]
pub struct StepDecisions {
    work: BTreeMap<SagaId, SagaWork>,
    held: BTreeMap<SagaId, Vec<StepSettlement>>,
    ends: BTreeSet<SagaId>,
    /// The part of the answer that needs no write: claims that are fenced, and claims that belong to no saga.
    pub settled: StepsSettled,
}

impl StepDecisions {
    /// Decides on one claim. `found` is the claimed entry as it is now, with its saga. `None`: the entry is owned
    /// by another relay, settled or gone.
    ///
    /// # Errors
    /// When what follows cannot be written as an event.
    pub fn settle(
        &mut self,
        settlement: StepSettlement,
        found: Option<(StepSeen, Option<SagaRecord>)>,
        now: Timestamp,
    ) -> Result<()> {
        let Some((seen, saga)) = found else {
            self.settled.fenced.push(settlement.held);
            return Ok(());
        };
        let Some(saga) = saga else {
            self.settled.plain.push(settlement.held);
            return Ok(());
        };
        let id = saga.id;
        let work = self.work.entry(id).or_insert_with(|| SagaWork::new(saga));
        work.settle(seen, &settlement.outcome, now)?;
        self.held.entry(id).or_default().push(settlement);
        Ok(())
    }

    /// Takes out what is to be written, one item per saga.
    #[must_use]
    pub fn take_work(&mut self) -> Vec<SagaWork> {
        let work = std::mem::take(&mut self.work);
        self.ends = work.values().filter(|work| work.moves.ended).map(|work| work.saga.id).collect();
        work.into_values().collect()
    }

    /// The final answer and the claims that are left. Claims count as settled if `is_written` says that everything
    /// of their saga was written. The other claims are left.
    pub fn written(self, is_written: impl Fn(SagaId) -> bool) -> (StepsSettled, Vec<StepSettlement>) {
        let Self { held, ends, mut settled, .. } = self;
        let mut left = Vec::new();
        for (id, held) in held {
            if is_written(id) {
                settled.accepted += held.len() as u64;
                settled.ended.extend(ends.contains(&id).then_some(id));
            } else {
                left.extend(held);
            }
        }
        (settled, left)
    }
}

impl StepsSettled {
    /// Adds the answer for the rest of a request.
    pub fn add(&mut self, rest: Self) {
        self.accepted += rest.accepted;
        self.fenced.extend(rest.fenced);
        self.plain.extend(rest.plain);
        self.ended.extend(rest.ended);
    }
}

impl Swept {
    /// A sweep that found this many rows, with these sagas among them, under this limit.
    pub fn of(rows: usize, sagas: &[SagaId], limit: u32) -> Self {
        let full = rows >= usize::try_from(limit).unwrap_or(usize::MAX);
        let next = sagas.last().copied().filter(|_| full);
        Self { seen: rows as u64, next, ..Self::default() }
    }

    /// Records the result for one saga: whether it has ended, or `None` if there was nothing to do. If a saga
    /// fails, the sweep goes on with the others, and its error is returned for the log.
    pub fn note(&mut self, id: SagaId, swept: Result<Option<bool>>) -> Option<Error> {
        match swept {
            Ok(Some(ended)) => {
                self.changed += 1;
                self.ended.extend(ended.then_some(id));
            }
            Ok(None) => {}
            Err(error) => {
                self.failed += 1;
                return Some(error);
            }
        }
        None
    }
}
