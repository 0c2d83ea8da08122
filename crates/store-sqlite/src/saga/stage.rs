//! Staging a saga inside the application's own transaction.

use pillarbox_core::Saga;
use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::SagaDraft;
use pillarbox_host::{Call, Operation};

use crate::driver::Transaction;
use crate::outbox::Outbox;
use crate::statement::Value;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// Any error of the database. The transaction should then be rolled back.
    pub fn stage_saga<'t, T: Transaction>(&self, tx: &'t mut T, saga: Saga) -> T::Answer<'t, StagedSaga> {
        tx.run(self.staging.saga(saga).map(|draft| self.clone().saga_row(draft)))
    }

    fn saga_row(self, draft: SagaDraft) -> Operation<Value, StagedSaga> {
        let columns = &draft.columns;
        let values = vec![
            Value::text(&columns.id),
            Value::text(&columns.name),
            Value::text(&columns.route),
            Value::text(&columns.subject_kind),
            Value::text(&columns.subject_value),
            Value::text(&columns.status),
            Value::text(&columns.body),
            draft.timeout_micros.into(),
            draft.timeout_micros.filter(|_| draft.is_due).into(),
        ];
        Operation::ask(Call::new(self.statements.saga_stage.shared(), values), move |rows| {
            let Some(row) = rows.first() else {
                return Ok(Operation::Done(StagedSaga::Duplicate(draft.id)));
            };
            let (steps, staged) = draft.written(row.number(0)?)?;
            Ok(self.many(steps)?.map(move |_| staged))
        })
    }
}
