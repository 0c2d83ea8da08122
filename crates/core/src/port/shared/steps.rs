//! Deciding what follows from the ends of steps, saga by saga.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::port::{StepSettlement, StepsSettled, Swept};
use crate::saga::{SagaId, SagaRecord, SagaWork, StepSeen};
use crate::time::Timestamp;

/// What follows from the ends of some steps: what is to be written of their sagas, and what of the request is
/// not theirs.
#[derive(Debug, Default)]
pub struct StepDecisions {
    work: BTreeMap<SagaId, SagaWork>,
    held: BTreeMap<SagaId, Vec<StepSettlement>>,
    ends: BTreeSet<SagaId>,
    /// What is known without writing anything: claims that are fenced, and claims of no saga.
    pub settled: StepsSettled,
}

impl StepDecisions {
    /// Decides on one claim. `found` is what still stands of it, with its saga: `None`, it is somebody else's
    /// by now, or settled or gone.
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

    /// What is to be written, one a saga. It is taken out.
    #[must_use]
    pub fn take_work(&mut self) -> Vec<SagaWork> {
        let work = std::mem::take(&mut self.work);
        self.ends = work.values().filter(|work| work.moves.ended).map(|work| work.saga.id).collect();
        work.into_values().collect()
    }

    /// What was settled, if of these sagas everything was written; and the claims of the others.
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
    /// Adds what was settled of the rest of a request.
    pub fn add(&mut self, rest: Self) {
        self.accepted += rest.accepted;
        self.fenced.extend(rest.fenced);
        self.plain.extend(rest.plain);
        self.ended.extend(rest.ended);
    }
}

impl Swept {
    /// A sweep that has found so many rows, these sagas among them, and may look at as many as the limit
    /// says.
    pub fn of(rows: usize, sagas: &[SagaId], limit: u32) -> Self {
        let full = rows >= usize::try_from(limit).unwrap_or(usize::MAX);
        let next = sagas.last().copied().filter(|_| full);
        Self { seen: rows as u64, next, ..Self::default() }
    }

    /// Notes what came of one saga: whether it has ended, or `None` if nothing was to be done. One saga that
    /// fails does not keep the others from being swept; its error is for the log.
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
