//! Accepting several events in one transaction, on any database: a few statements, however many events there
//! are.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox_core::port::shared::{AcceptPlan, NewOwner};
use pillarbox_core::port::{AcceptBatch, Accepted, Origin, Position};
use pillarbox_core::{Error, ErrorKind, EventId, Fence, Result, Timestamp};

use crate::{Call, Operation, Row};

/// The statements by which a store marks several events. `V` is what the store binds.
pub trait BatchMarks<V>: Send + Sync + 'static {
    /// Whether [`mark`](Self::mark) returns the ids of the events that it marked. If not, it only counts them, and
    /// [`marked`](Self::marked) is asked before.
    const TELLS_MARKED: bool;

    /// Asks for the newest owners of these lanes: lane, fence, stream and position.
    ///
    /// # Errors
    /// When a value cannot be passed to the database.
    fn fences_of(&self, consumer: &str, lanes: &[&str]) -> Result<Call<V>>;

    /// Asks which of these events were marked before.
    ///
    /// # Errors
    /// When a value cannot be passed to the database.
    fn marked(&self, consumer: &str, events: &BTreeSet<EventId>) -> Result<Call<V>>;

    /// Marks these events, but for those that are marked already.
    ///
    /// # Errors
    /// When a value cannot be passed to the database.
    fn mark(&self, consumer: &str, events: &BTreeSet<EventId>, now: Option<Timestamp>) -> Result<Call<V>>;

    /// Remembers the newest owner of a lane.
    ///
    /// # Errors
    /// When a value cannot be passed to the database.
    fn raise(&self, consumer: &str, owner: NewOwner, now: Option<Timestamp>) -> Result<Operation<V, ()>>;
}

/// Marks the events of a batch.
///
/// # Errors
/// When the batch breaks a rule, before anything is written.
pub fn accept_all<V: Send + 'static, M: BatchMarks<V>>(
    marks: Arc<M>,
    batch: AcceptBatch,
) -> Result<Operation<V, Vec<Accepted>>> {
    batch.check()?;
    if batch.events.is_empty() {
        return Ok(Operation::Done(Vec::new()));
    }
    let lanes = AcceptPlan::lanes(&batch);
    if lanes.is_empty() {
        let plan = AcceptPlan::new(&batch, []);
        return Marking { marks, batch, plan }.look_up();
    }
    let call = marks.fences_of(&batch.consumer, &lanes)?;
    Ok(Operation::ask(call, move |rows| {
        let known = rows.iter().map(owner).collect::<Result<Vec<_>>>()?;
        let plan = AcceptPlan::new(&batch, known);
        Marking { marks, batch, plan }.look_up()
    }))
}

/// The way of a batch through the inbox, once the owners of its lanes are known.
struct Marking<M> {
    marks: Arc<M>,
    batch: AcceptBatch,
    plan: AcceptPlan,
}

impl<M> Marking<M> {
    /// Asks which events were marked before, as far as marking does not tell.
    fn look_up<V: Send + 'static>(self) -> Result<Operation<V, Vec<Accepted>>>
    where
        M: BatchMarks<V>,
    {
        let asked = if M::TELLS_MARKED { self.plan.stale() } else { self.plan.all() };
        if asked.is_empty() {
            return self.mark(BTreeSet::new());
        }
        let call = self.marks.marked(&self.batch.consumer, &asked)?;
        Ok(Operation::ask(call, move |rows| self.mark(ids(&rows)?)))
    }

    fn mark<V: Send + 'static>(self, mut seen: BTreeSet<EventId>) -> Result<Operation<V, Vec<Accepted>>>
    where
        M: BatchMarks<V>,
    {
        let fresh: BTreeSet<EventId> = self.plan.to_mark().difference(&seen).copied().collect();
        if fresh.is_empty() {
            return self.raise(&seen);
        }
        let call = self.marks.mark(&self.batch.consumer, &fresh, self.batch.now)?;
        if M::TELLS_MARKED {
            return Ok(Operation::ask(call, move |rows| {
                let marked = ids(&rows)?;
                seen.extend(fresh.difference(&marked));
                self.raise(&seen)
            }));
        }
        Ok(Operation::change(call, move |marked| {
            if marked.rows != fresh.len() as u64 {
                return Err(contended());
            }
            self.raise(&seen)
        }))
    }

    /// Remembers the new owners one after the other. There is one only after a take-over.
    fn raise<V: Send + 'static>(self, seen: &BTreeSet<EventId>) -> Result<Operation<V, Vec<Accepted>>>
    where
        M: BatchMarks<V>,
    {
        let Self { marks, batch, plan } = self;
        let mut step = Operation::Done(());
        for owner in plan.newer() {
            let raise = marks.raise(&batch.consumer, owner.clone(), batch.now)?;
            step = step.then(move |()| Ok(raise))?;
        }
        let outcomes = plan.outcomes(seen);
        step.then(move |()| Ok(Operation::Done(outcomes)))
    }
}

fn owner(row: &Row) -> Result<Origin> {
    let position = Position { stream: row.text(2)?.to_owned(), offset: row.number(3)? };
    Ok(Origin { lane: row.text(0)?.to_owned(), fence: Fence(row.number(1)?), position })
}

fn ids(rows: &[Row]) -> Result<BTreeSet<EventId>> {
    rows.iter().map(|row| row.text(0)?.parse()).collect()
}

fn contended() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another transaction marked one of these events at the same time; roll back and accept them again",
    )
}
