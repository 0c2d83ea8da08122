//! Deleting by age: entries, rows of the inbox, and sagas.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Result, Timestamp, check_name};
use sqlx::{Row, SqliteConnection};

use crate::claim::{micros, seqs_json};
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;
use crate::writer::Step;

pub(crate) async fn purge(store: &SqliteStore, request: PurgeRequest) -> Result<Purged> {
    let step = Purge { statements: &store.statements, request: &request };
    // Most of the time there is nothing to do; a look does not take the write lock.
    let found = step.find(&mut *store.reader().await?).await?;
    if found.is_empty() || request.effect == Effect::DryRun {
        return Ok(Purged { purged: found.len() as u64 });
    }
    store.writer.durably(&step).await
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
impl Step for &Purge<'_> {
    type Outcome = Purged;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Purged> {
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

pub(crate) async fn purge_inbox(store: &SqliteStore, request: PurgeRequest) -> Result<Purged> {
    let s = &store.statements;
    let (count, audit, delete) = (&s.inbox_purgeable, &s.inbox_purge_audit, &s.inbox_purge);
    let step = PurgeRows { request: &request, count, audit, delete, forget: Some(&s.fence_purge) };
    purge_rows(store, &step).await
}

pub(crate) async fn purge_sagas(store: &SqliteStore, request: PurgeRequest) -> Result<Purged> {
    check_name("actor", &request.actor)?;
    let s = &store.statements;
    let (count, audit, delete) = (&s.saga_purgeable, &s.saga_purge_audit, &s.saga_purge);
    purge_rows(store, &PurgeRows { request: &request, count, audit, delete, forget: None }).await
}

async fn purge_rows(store: &SqliteStore, step: &PurgeRows<'_>) -> Result<Purged> {
    let found = step.count(&mut *store.reader().await?).await?;
    if found == 0 || step.request.effect == Effect::DryRun {
        return Ok(Purged { purged: found });
    }
    store.writer.durably(step).await
}

/// Rows that are counted, and then deleted by the same condition.
struct PurgeRows<'a> {
    request: &'a PurgeRequest,
    count: &'a Arc<str>,
    audit: &'a Arc<str>,
    delete: &'a Arc<str>,
    /// What else goes by the same age.
    forget: Option<&'a Arc<str>>,
}

impl PurgeRows<'_> {
    fn now(&self) -> Option<i64> {
        self.request.now.map(Timestamp::as_micros)
    }

    async fn count(&self, connection: &mut SqliteConnection) -> Result<u64> {
        let row = query(self.count)
            .bind(self.now())
            .bind(micros(self.request.older_than))
            .bind(self.request.limit)
            .fetch_one(connection)
            .await
            .map_err(classify)?;
        let found: i64 = row.try_get_unchecked(0).map_err(classify)?;
        Ok(u64::try_from(found).unwrap_or(0))
    }
}

#[async_trait]
impl Step for &PurgeRows<'_> {
    type Outcome = Purged;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Purged> {
        let found = self.count(&mut *tx).await?;
        if found == 0 {
            return Ok(Purged::default());
        }
        let age = micros(self.request.older_than);
        query(self.audit)
            .bind(self.now())
            .bind(self.request.actor.clone())
            .bind(found.to_string())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        let purged = query(self.delete)
            .bind(self.now())
            .bind(age)
            .bind(self.request.limit)
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        if let Some(forget) = self.forget {
            query(forget).bind(self.now()).bind(age).execute(tx).await.map_err(classify)?;
        }
        Ok(Purged { purged: purged.rows_affected() })
    }
}
