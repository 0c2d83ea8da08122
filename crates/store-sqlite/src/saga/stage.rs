//! Staging a saga inside the application's own transaction.

use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Result, Saga};

use crate::bind::Bind;
use crate::commit::Tx;
use crate::error::classify;
use crate::outbox::Outbox;
use crate::row::Cells;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// Any error of the database. The transaction should then be rolled back.
    pub async fn stage_saga(&self, tx: &mut Tx<'_>, saga: Saga) -> Result<StagedSaga> {
        let draft = self.staging.saga(saga)?;
        let columns = &draft.columns;
        let arguments = Bind::new()
            .text(&columns.id)
            .text(&columns.name)
            .text(&columns.route)
            .text(&columns.subject_kind)
            .text(&columns.subject_value)
            .text(&columns.status)
            .text(&columns.body)
            .value(draft.timeout_micros)
            .value(draft.is_due);
        let stage = self.statements.saga_stage.with(arguments.done()?);
        let Some(row) = stage.fetch_optional(&mut **tx).await.map_err(classify)? else {
            return Ok(StagedSaga::Duplicate(draft.id));
        };
        let (steps, staged) = draft.written(Cells::of(&row).number()?)?;
        self.stage_all(tx, steps).await?;
        Ok(staged)
    }
}
