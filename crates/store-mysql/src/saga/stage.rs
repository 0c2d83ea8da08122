//! Staging a saga inside the application's own transaction.

use pillarbox_core::port::StagedSaga;
use pillarbox_core::{Error, ErrorKind, Result, Saga};

use crate::bind::Bind;
use crate::commit::Tx;
use crate::error::{DUPLICATE, Phase, classify, number};
use crate::outbox::Outbox;

/// How often another transaction may stage a saga of the same subject in between.
const TRIES: u32 = 16;

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// Any error of the database. The transaction should then be rolled back.
    pub async fn stage_saga(&self, tx: &mut Tx<'_>, saga: Saga) -> Result<StagedSaga> {
        let draft = self.staging.saga(saga)?;
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
        let (stage, id) = (self.statements.saga_stage.with(bind)?, Bind::new().bytes(columns.id.as_str()));
        for _ in 0..TRIES {
            match stage.query().execute(&mut **tx).await {
                Ok(done) => {
                    let generation = i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX);
                    let (steps, staged) = draft.written(generation)?;
                    self.stage_all(tx, steps).await?;
                    return Ok(staged);
                }
                Err(error) if number(&error) == Some(DUPLICATE) => {
                    let known = self.statements.saga_known.with(id.clone())?;
                    if !known.rows_in(tx, Phase::Application).await?.is_empty() {
                        return Ok(StagedSaga::Duplicate(draft.id));
                    }
                }
                Err(error) => return Err(classify(error, Phase::Application)),
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            "other transactions staged sagas of the same subject all the time; try again",
        ))
    }
}
