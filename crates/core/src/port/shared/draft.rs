//! A saga that is about to be staged.

use crate::error::Result;
use crate::event::Event;
use crate::name::RouteName;
use crate::port::StagedSaga;
use crate::saga::{Saga, SagaColumns, SagaId, SagaRecord};
use crate::time::Timestamp;

use super::micros;

/// A saga before the database has given it its generation and its times.
#[derive(Clone, Debug)]
pub struct SagaDraft {
    saga: Saga,
    route: RouteName,
    /// Which saga.
    pub id: SagaId,
    /// Its row. The generation and the times are not looked at.
    pub columns: SagaColumns,
    /// How long it may take, in microseconds: whole milliseconds, as its body has it.
    pub timeout_micros: Option<i64>,
    /// Whether a sweep has to look at it when it has taken as long.
    pub is_due: bool,
}

impl SagaDraft {
    /// A saga on this route; `fresh_id` is for one that has none.
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

    /// The events of the steps that may run now, when its row was written with this generation.
    ///
    /// # Errors
    /// When a step cannot be written as an event.
    pub fn written(self, generation: i64) -> Result<(Vec<Event>, StagedSaga)> {
        let generation = u32::try_from(generation).unwrap_or(u32::MAX);
        let mut record = SagaRecord::new(self.saga, self.id, self.route, generation, Timestamp::MIN);
        Ok((record.start()?.stage, StagedSaga::Fresh { id: self.id, generation }))
    }
}
