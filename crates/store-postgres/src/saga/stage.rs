//! Staging a saga inside the application's own transaction.

use async_trait::async_trait;
use pillarbox_core::port::{Entropy, StageSaga, StagedSaga};
use pillarbox_core::{Error, ErrorKind, Result, Saga, SagaId, SagaRecord, Timestamp};
use pillarbox_host::OsEntropy;
use sqlx::postgres::PgArguments;
use sqlx::{Postgres, Row, Transaction};

use crate::bind::Bind;
use crate::error::{Phase, classify};
use crate::options::Mode;
use crate::outbox::Outbox;
use crate::sql::Sql;

/// Others that stage the same subject at the same time come first at most this often.
const TRIES: usize = 16;

impl Outbox {
    /// Stages a saga with the entries of the steps that may run now, on this route.
    ///
    /// # Errors
    /// When the database fails; the transaction should then be rolled back.
    pub async fn stage_saga(&self, tx: &mut Transaction<'_, Postgres>, mut saga: Saga) -> Result<StagedSaga> {
        saga.fill_header("traceparent", || self.traceparent());
        let route = self.route()?;
        let id = saga.id().unwrap_or_else(|| SagaId(OsEntropy.event_id().0));
        // The times are the database's: only what does not depend on them is taken from this one.
        let mut draft = SagaRecord::new(saga.clone(), id, route.clone(), 1, Timestamp::MIN);
        let _ = draft.start()?;
        let columns = draft.columns()?;
        for _ in 0..TRIES {
            let timeout = draft.timeout.and_then(|timeout| i64::try_from(timeout.as_millis() * 1000).ok());
            let arguments = Bind::new()
                .text(&columns.id)
                .text(&columns.name)
                .text(&columns.route)
                .text(&columns.subject_kind)
                .text(&columns.subject_value)
                .text(&columns.status)
                .text(&columns.body)
                .value(timeout)
                .value(draft.due_at.is_some());
            let rows = self.rows(tx, &self.statements.saga, arguments.done()?).await?;
            if let Some(row) = rows.first() {
                let generation: i64 = row.try_get(0).map_err(|error| classify(error, Phase::Application))?;
                let generation = u32::try_from(generation).unwrap_or(u32::MAX);
                let mut record = SagaRecord::new(saga, id, route, generation, Timestamp::MIN);
                let moves = record.start()?;
                self.stage_all(tx, moves.stage).await?;
                return Ok(StagedSaga::Fresh { id, generation });
            }
            let arguments = Bind::new().text(&columns.id).done()?;
            if !self.rows(tx, &self.statements.saga_exists, arguments).await?.is_empty() {
                return Ok(StagedSaga::Duplicate(id));
            }
        }
        Err(Error::new(ErrorKind::Contention, "others stage sagas on the same subject all the time"))
    }

    async fn rows(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        sql: &Sql,
        arguments: PgArguments,
    ) -> Result<Vec<sqlx::postgres::PgRow>> {
        let query = sql.with(arguments).persistent(self.mode == Mode::Direct);
        query.fetch_all(&mut **tx).await.map_err(|error| classify(error, Phase::Application))
    }
}

#[async_trait]
impl<'c> StageSaga<Transaction<'c, Postgres>> for Outbox {
    async fn stage_saga(&self, tx: &mut Transaction<'c, Postgres>, saga: Saga) -> Result<StagedSaga> {
        Self::stage_saga(self, tx, saga).await
    }
}
