//! One change of a saga, from what was read to what is written: the same for every database.

use crate::entry::{Held, NewEntry};
use crate::error::Result;
use crate::event::{Event, EventId, EventLimits};
use crate::hlc::Hlc;
use crate::port::{Intervened, Intervention, StepOutcome};
use crate::status::Status;
use crate::time::Timestamp;

use super::moves::{EntryMove, Moves};
use super::reconcile::StepSeen;
use super::record::SagaRecord;

/// What is to be written of one saga, if it still has the version that this was decided from, and its entries the
/// fences and statuses.
#[derive(Clone, Debug)]
pub struct SagaWork {
    /// The version that was read.
    pub version: i64,
    /// The saga as it will be.
    pub saga: SagaRecord,
    /// What is to be done.
    pub moves: Moves,
    seen: Vec<StepSeen>,
}

/// What is to become of one entry.
#[derive(Clone, Debug)]
pub struct EntryWork {
    /// The row, and the fence that it must have.
    pub held: Held,
    /// The status that it must have.
    pub seen: Status,
    /// What becomes of it.
    pub change: EntryMove,
}

impl SagaWork {
    /// Nothing to do yet.
    #[must_use]
    pub fn new(saga: SagaRecord) -> Self {
        Self { version: saga.version, saga, moves: Moves::default(), seen: Vec::new() }
    }

    /// A claimed step has ended.
    ///
    /// # Errors
    /// When what follows cannot be written as an event.
    pub fn settle(&mut self, step: StepSeen, outcome: &StepOutcome, now: Timestamp) -> Result<()> {
        let moves = match outcome {
            StepOutcome::Done { data } => self.saga.done(step.event_id, data.clone(), now)?,
            StepOutcome::Dead { failure } => {
                self.saga.given_up(step.event_id, step.began_before(), failure.clone(), now)?
            }
        };
        self.moves.append(moves);
        self.seen.push(step);
        Ok(())
    }

    /// Brings a saga up to date with its entries; `None`: it was.
    ///
    /// # Errors
    /// When what follows cannot be written as an event.
    pub fn sweep(saga: SagaRecord, seen: Vec<StepSeen>, now: Timestamp) -> Result<Option<Self>> {
        let before = saga.clone();
        let mut work = Self::new(saga);
        work.moves = work.saga.reconcile(&seen, now)?;
        work.seen = seen;
        let same = work.moves.is_empty() && work.saga == before;
        Ok((!same).then_some(work))
    }

    /// What an operator asks for. Whatever happened to its entries meanwhile comes first, unless nothing more is to come
    /// of it.
    ///
    /// # Errors
    /// When it does not wait for an operator, or cannot go where it is asked to.
    pub fn intervene(
        saga: SagaRecord,
        seen: Vec<StepSeen>,
        what: &Intervention,
        now: Timestamp,
    ) -> Result<Self> {
        let mut work = Self::new(saga);
        if !matches!(what, Intervention::Abandon { .. }) {
            work.moves = work.saga.reconcile(&seen, now)?;
        }
        work.moves.append(work.saga.intervene(&seen, what, now)?);
        work.seen = seen;
        Ok(work)
    }

    /// What came of an operator's wish.
    pub fn intervened(&self) -> Intervened {
        let entries = self.entries();
        let count =
            |is: fn(&EntryMove) -> bool| entries.iter().filter(|entry| is(&entry.change)).count() as u64;
        Intervened {
            status: self.saga.status,
            requeued: count(|change| *change == EntryMove::Requeue),
            discarded: count(|change| matches!(change, EntryMove::Discard(_))),
        }
    }

    /// The entries that are to be staged, each with a stamp.
    ///
    /// # Errors
    /// When a step is out of bounds.
    pub fn staged(&self, stamp: impl Fn() -> Hlc) -> Result<Vec<NewEntry>> {
        // Every step has a key of its own; the fresh one is never used.
        let fresh = EventId(self.saga.id.0);
        let entry = |event: &Event| {
            NewEntry::new(&self.saga.route, event.clone(), fresh, stamp(), &EventLimits::default())
        };
        self.moves.stage.iter().map(entry).collect()
    }

    /// What becomes of its entries. One that is not there any more, or that is not dead any more and was to be
    /// requeued, is left out.
    #[must_use]
    pub fn entries(&self) -> Vec<EntryWork> {
        let of = |(id, change): &(_, EntryMove)| {
            let seen = self.seen.iter().find(|seen| seen.event_id == *id)?;
            let possible = *change != EntryMove::Requeue || seen.status == Status::Dead;
            possible.then(|| EntryWork { held: seen.held, seen: seen.status, change: change.clone() })
        };
        self.moves.entries.iter().filter_map(of).collect()
    }
}
