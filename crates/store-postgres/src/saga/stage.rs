//! Staging a saga inside the application's own transaction.

use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Error, ErrorKind, Result, Saga};
use sqlx::postgres::{PgArguments, PgRow};

use crate::bind::Bind;
use crate::commit::Tx;
use crate::error::{Phase, classify};
use crate::options::Mode;
use crate::outbox::Outbox;
use crate::row::Cells;
use crate::sql::Sql;

/// Others that stage the same subject at the same time come first at most this often.
const TRIES: usize = 16;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// When the database fails. The transaction should then be rolled back.
    pub async fn stage_saga(&self, tx: &mut Tx<'_>, saga: Saga) -> Result<StagedSaga> {
        let draft = self.staging.saga(saga)?;
        let columns = &draft.columns;
        for _ in 0..TRIES {
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
            let rows = self.rows(tx, &self.statements.saga_stage, arguments.done()?).await?;
            if let Some(row) = rows.first() {
                let (steps, staged) = draft.written(Cells::of(row).number()?)?;
                self.stage_all(tx, steps).await?;
                return Ok(staged);
            }
            let arguments = Bind::new().text(&columns.id).done()?;
            if !self.rows(tx, &self.statements.saga_exists, arguments).await?.is_empty() {
                return Ok(StagedSaga::Duplicate(draft.id));
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            "other transactions kept staging sagas on the same subject, so this saga was not staged. Roll \
             back and try again",
        ))
    }

    async fn rows(&self, tx: &mut Tx<'_>, sql: &Sql, arguments: PgArguments) -> Result<Vec<PgRow>> {
        let query = sql.with(arguments).persistent(self.mode == Mode::Direct);
        query.fetch_all(&mut **tx).await.map_err(|error| classify(error, Phase::Application))
    }
}
