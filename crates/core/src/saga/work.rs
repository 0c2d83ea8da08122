//! One change of a saga, from the rows that were read to the rows to write. It is the same for every database.

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

/// What is to be written for one saga. It is written only if the saga still has the version that was read, and its
/// entries still have their fences and statuses.
#[derive(Clone, Debug)]
pub struct SagaWork {
    /// The version that was read.
    pub version: i64,
    /// The saga after the change.
    pub saga: SagaRecord,
    /// The moves to write.
    pub moves: Moves,
    seen: Vec<StepSeen>,
}

/// The change of one entry.
#[derive(Clone, Debug)]
pub struct EntryWork {
    /// The row, and the fence that the row must have.
    pub held: Held,
    /// The status that the row must have.
    pub seen: Status,
    /// The change.
    pub change: EntryMove,
}

impl SagaWork {
    /// Work on a saga without any changes yet.
    #[must_use]
    pub fn new(saga: SagaRecord) -> Self {
        Self { version: saga.version, saga, moves: Moves::default(), seen: Vec::new() }
    }

    /// Records the outcome of a claimed step.
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

    /// Brings a saga up to date with its entries. `None`: it was up to date.
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

    /// Carries out an operator's intervention. The saga is first brought up to date with its entries, unless the
    /// operator abandons it.
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

    /// The answer to the intervention.
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

    /// The entries to stage, each with a stamp.
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

    /// The changes of the saga's entries. An entry that does not exist any more is left out. An entry that was to
    /// be requeued and is not dead any more is left out too.
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
