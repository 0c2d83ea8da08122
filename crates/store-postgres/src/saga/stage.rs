//! Staging a saga inside the application's own transaction.

use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::SagaDraft;
use pillarbox_core::{Error, ErrorKind, Result, Saga};
use pillarbox_host::Operation;

use crate::driver::Transaction;
use crate::outbox::Outbox;
use crate::statement::Value;

/// Others that stage the same subject at the same time come first at most this often.
const TRIES: usize = 16;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// When the database fails. The transaction should then be rolled back.
    pub fn stage_saga<'t, T: Transaction>(&self, tx: &'t mut T, saga: Saga) -> T::Answer<'t, StagedSaga> {
        tx.run(self.staging.saga(saga).and_then(|draft| self.clone().try_saga(draft, TRIES)))
    }

    fn try_saga(self, draft: SagaDraft, tries: usize) -> Result<Operation<Value, StagedSaga>> {
        if tries == 0 {
            return Err(Error::new(
                ErrorKind::Contention,
                "other transactions kept staging sagas on the same subject, so this saga was not staged. Roll \
                 back and try again",
            ));
        }
        let columns = &draft.columns;
        let values = vec![
            Value::text(&columns.id),
            Value::text(&columns.name),
            Value::text(&columns.route),
            Value::text(&columns.subject_kind),
            Value::text(&columns.subject_value),
            Value::text(&columns.status),
            Value::text(&columns.body),
            Value::Integer(draft.timeout_micros),
            Value::Integer(draft.timeout_micros.filter(|_| draft.is_due)),
        ];
        Ok(Operation::ask(self.call(&self.statements.saga_stage, values), move |rows| {
            if let Some(row) = rows.first() {
                let (steps, staged) = draft.written(row.number(0)?)?;
                return Ok(self.many(steps)?.map(move |_| staged));
            }
            let call = self.call(&self.statements.saga_exists, vec![Value::text(&draft.columns.id)]);
            Ok(Operation::ask(call, move |rows| match rows.is_empty() {
                true => self.try_saga(draft, tries - 1),
                false => Ok(Operation::Done(StagedSaga::Duplicate(draft.id))),
            }))
        }))
    }
}
