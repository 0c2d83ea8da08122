//! A saga that is about to be staged.

use crate::error::Result;
use crate::event::Event;
use crate::name::RouteName;
use crate::port::StagedSaga;
use crate::saga::{Saga, SagaColumns, SagaId, SagaRecord};
use crate::time::Timestamp;

use super::micros;

/// A saga that the database has not yet given a generation and times.
#[derive(Clone, Debug)]
pub struct SagaDraft {
    saga: Saga,
    route: RouteName,
    /// The saga's id.
    pub id: SagaId,
    /// The saga's row. Its generation and times are ignored.
    pub columns: SagaColumns,
    /// How long the saga may take, in microseconds. The value is in whole milliseconds, as in the row's body.
    pub timeout_micros: Option<i64>,
    /// Whether a sweep must look at the saga when that time is over.
    pub is_due: bool,
}

impl SagaDraft {
    /// A draft of a saga on this route. If the saga has no id, it gets `fresh_id`.
    ///
    /// # Errors
    /// When a step cannot be written as an event.
    pub fn new(saga: Saga, fresh_id: SagaId, route: RouteName) -> Result<Self> {
        let id = saga.id().unwrap_or(fresh_id);
        // The times are the database's: only what does not depend on them is taken from this one.
        let mut draft = SagaRecord::new(saga.clone(), id, route.clone(), 1, Timestamp::MIN);
        let _ = draft.start()?;
        Ok(Self {
            columns: draft.columns()?,
            timeout_micros: draft.timeout.map(|timeout| micros(timeout) / 1000 * 1000),
            is_due: draft.due_at.is_some(),
            saga,
            route,
            id,
        })
    }

    /// The events of the steps that may run now, after the row was written with this generation.
    ///
    /// # Errors
    /// When a step cannot be written as an event.
    pub fn written(self, generation: i64) -> Result<(Vec<Event>, StagedSaga)> {
        let generation = u32::try_from(generation).unwrap_or(u32::MAX);
        let mut record = SagaRecord::new(self.saga, self.id, self.route, generation, Timestamp::MIN);
        Ok((record.start()?.stage, StagedSaga::Fresh { id: self.id, generation }))
    }
}
