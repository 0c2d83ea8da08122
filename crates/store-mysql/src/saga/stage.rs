//! Staging a saga inside the application's own transaction.

use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::SagaDraft;
use pillarbox_core::{Error, ErrorKind, Result, Saga};
use pillarbox_host::Operation;

use crate::bind::Bind;
use crate::driver::Transaction;
use crate::outbox::Outbox;
use crate::statement::Value;

/// Others that stage the same subject at the same time come first at most this often.
const TRIES: u32 = 16;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// Any error of the database. The transaction should then be rolled back.
    pub fn stage_saga<'t, T: Transaction>(&self, tx: &'t mut T, saga: Saga) -> T::Answer<'t, StagedSaga> {
        tx.run(self.staging.saga(saga).and_then(|draft| self.clone().try_saga(draft, TRIES)))
    }

    fn try_saga(self, draft: SagaDraft, tries: u32) -> Result<Operation<Value, StagedSaga>> {
        if tries == 0 {
            return Err(Error::new(
                ErrorKind::Contention,
                "other transactions kept staging sagas on the same subject, so this saga was not staged. Roll \
                 back and try again",
            ));
        }
        let columns = &draft.columns;
        let bind = Bind::new()
            .bytes(columns.id.as_str())
            .bytes(columns.name.as_str())
            .bytes(columns.route.as_str())
            .bytes(columns.subject_kind.as_str())
            .bytes(columns.subject_value.as_str())
            .bytes(columns.status.as_str())
            .bytes(columns.body.as_str())
            .optional_number(draft.timeout_micros)
            .flag(draft.is_due);
        Ok(Operation::change(self.statements.saga_stage.call(bind)?, move |changed| {
            if changed.rows > 0 {
                let generation = i64::try_from(changed.told).unwrap_or(i64::MAX);
                let (steps, staged) = draft.written(generation)?;
                return Ok(self.many(steps)?.map(move |_| staged));
            }
            let id = Bind::new().bytes(draft.columns.id.as_str());
            Ok(Operation::ask(self.statements.saga_known.call(id)?, move |rows| match rows.is_empty() {
                true => self.try_saga(draft, tries - 1),
                false => Ok(Operation::Done(StagedSaga::Duplicate(draft.id))),
            }))
        }))
    }
}
