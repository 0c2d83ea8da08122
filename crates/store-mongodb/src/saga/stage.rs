//! Staging a saga inside the application's own transaction.

use mongodb::bson::{Bson, doc};
use pillarbox_core::port::StagedSaga;
use pillarbox_core::port::shared::SagaDraft;
use pillarbox_core::{Error, ErrorKind, Result, Saga};

use crate::call::clock;
use crate::command::{Find, insert};
use crate::commit::Tx;
use crate::error::{DUPLICATE, Phase};
use crate::outbox::Outbox;
use crate::row::number;
use crate::transaction::{Patience, check_open};

impl Outbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// When the session has no transaction. Also any error of the database: the transaction is then rolled back.
    pub async fn stage_saga(&self, tx: &mut Tx<'_>, saga: Saga) -> Result<StagedSaga> {
        let draft = self.staging.saga(saga)?;
        check_open(tx).await?;
        let mut patience = Patience::of(tx, self.options.lock_timeout);
        loop {
            match self.stage_draft(tx, draft.clone()).await {
                Err(error) if patience.again(&error) => patience.begin_again(tx).await?,
                answer => return answer,
            }
        }
    }

    async fn stage_draft(&self, tx: &mut Tx<'_>, draft: SagaDraft) -> Result<StagedSaga> {
        let (columns, tables) = (&draft.columns, &self.tables);
        let mut link = self.link(tx)?;
        let known = Find::new(&tables.saga, doc! { "_id": &columns.id }).fields(&["_id"]);
        if !link.find(known).await?.is_empty() {
            return Ok(StagedSaga::Duplicate(draft.id));
        }
        let subject = doc! {
            "name": &columns.name, "subject_kind": &columns.subject_kind, "subject_value": &columns.subject_value,
        };
        let newest = Find::new(&tables.saga, subject).sort(doc! { "generation": -1 }).limit(1);
        let newest = link.find(newest.fields(&["generation"])).await?;
        let generation = newest.first().map_or(0, |newest| number(newest, "generation")) + 1;
        let at = clock(&link.database, Phase::Application).await?.as_micros();
        let deadline =
            draft.timeout_micros.map_or(Bson::Null, |timeout| Bson::Int64(at.saturating_add(timeout)));
        let document = doc! {
            "_id": &columns.id,
            "name": &columns.name,
            "route": &columns.route,
            "subject_kind": &columns.subject_kind,
            "subject_value": &columns.subject_value,
            "generation": generation,
            "status": &columns.status,
            "version": 0_i64,
            "dead": 0_i64,
            "due_at": if draft.is_due { deadline.clone() } else { Bson::Null },
            "deadline_at": deadline,
            "body": &columns.body,
            "created_at": at,
            "updated_at": at,
        };
        link.write(insert(&tables.saga, vec![document]))
            .await
            .map_err(|error| if error.code() == Some(&DUPLICATE.to_string()) { raced() } else { error })?;
        let (steps, staged) = draft.written(generation)?;
        self.stage_all(tx, steps).await?;
        Ok(staged)
    }
}

fn raced() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another transaction has just staged a saga of the same subject; run this one again from its beginning",
    )
    .with_code(DUPLICATE.to_string())
}
