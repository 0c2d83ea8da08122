//! Deleting by age.

use async_trait::async_trait;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Result, Timestamp};
use sqlx::{Row, SqliteConnection};

use crate::claim::{micros, seqs_json};
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::{SqliteStore, Step};

pub(crate) async fn purge(store: &SqliteStore, request: PurgeRequest) -> Result<Purged> {
    let step = Purge { statements: &store.statements, request: &request };
    // Most of the time there is nothing to do; a look does not take the write lock.
    let found = step.find(&mut *store.writer().await?).await?;
    if found.is_empty() || request.effect == Effect::DryRun {
        return Ok(Purged { purged: found.len() as u64 });
    }
    store.durably(&step).await
}

struct Purge<'a> {
    statements: &'a Statements,
    request: &'a PurgeRequest,
}

impl Purge<'_> {
    fn now(&self) -> Option<i64> {
        self.request.now.map(Timestamp::as_micros)
    }

    async fn find(&self, connection: &mut SqliteConnection) -> Result<Vec<i64>> {
        let rows = query(&self.statements.purgeable)
            .bind(self.now())
            .bind(micros(self.request.older_than))
            .bind(self.request.limit)
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| row.try_get_unchecked(0).map_err(classify)).collect()
    }
}

#[async_trait]
impl Step for Purge<'_> {
    type Outcome = Purged;

    async fn run(&self, tx: &mut SqliteConnection) -> Result<Purged> {
        let found = self.find(&mut *tx).await?;
        if found.is_empty() {
            return Ok(Purged::default());
        }
        query(&self.statements.purge_audit)
            .bind(self.now())
            .bind(self.request.actor.clone())
            .bind(found.len().to_string())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        let purged =
            query(&self.statements.purge).bind(seqs_json(&found)?).execute(tx).await.map_err(classify)?;
        Ok(Purged { purged: purged.rows_affected() })
    }
}
