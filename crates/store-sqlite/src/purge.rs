//! Purging: what was settled, accepted, or ended long enough ago goes, in small batches.

use async_trait::async_trait;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Result, Timestamp};
use sqlx::SqliteConnection;

use crate::bind::Bind;
use crate::call::UnitOfWork;
use crate::claim::micros;
use crate::error::classify;
use crate::row::Cells;
use crate::sql::{Sql, Statements};
use crate::store::SqliteStore;

impl SqliteStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        self.purge_by(&request, [&s.purgeable, &s.purge_audit, &s.purge], None).await
    }

    pub(crate) async fn purge_accepted(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        let statements = [&s.inbox_purgeable, &s.inbox_purge_audit, &s.inbox_purge];
        self.purge_by(&request, statements, Some(&s.fence_purge)).await
    }

    pub(crate) async fn purge_ended(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        self.purge_by(&request, [&s.saga_purgeable, &s.saga_purge_audit, &s.saga_purge], None).await
    }

    async fn purge_by(
        &self,
        request: &PurgeRequest,
        [count, audit, delete]: [&Sql; 3],
        forget: Option<&Sql>,
    ) -> Result<Purged> {
        request.check()?;
        let step = Purge { statements: &self.statements, request, count, audit, delete, forget };
        // Most of the time there is nothing to do; a look does not take the write lock.
        let found = step.count(request.now, &mut *self.reader().await?).await?;
        if found == 0 || request.effect == Effect::DryRun {
            return Ok(Purged { purged: found });
        }
        self.writer.durably(&step).await
    }
}

/// Rows that are counted, and then deleted by the same condition.
struct Purge<'a> {
    statements: &'a Statements,
    request: &'a PurgeRequest,
    count: &'a Sql,
    audit: &'a Sql,
    delete: &'a Sql,
    /// What else goes by the same age.
    forget: Option<&'a Sql>,
}

impl Purge<'_> {
    fn age(&self, now: Option<Timestamp>) -> Bind {
        Bind::new().at(now).number(micros(self.request.older_than))
    }

    async fn count(&self, now: Option<Timestamp>, connection: &mut SqliteConnection) -> Result<u64> {
        let count = self.count.with(self.age(now).number(self.request.limit.into()).done()?);
        Cells::of(&count.fetch_one(connection).await.map_err(classify)?).count()
    }
}

#[async_trait]
impl UnitOfWork for &Purge<'_> {
    type Outcome = Purged;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Purged> {
        // One time for all: what is counted is what is deleted.
        let now = Some(self.statements.now_or(self.request.now, &mut *tx).await?);
        let found = self.count(now, &mut *tx).await?;
        if found == 0 {
            return Ok(Purged::default());
        }
        let audit = Bind::new().at(now).text(&self.request.actor).text(&found.to_string()).done()?;
        self.audit.with(audit).execute(&mut *tx).await.map_err(classify)?;
        let delete = self.delete.with(self.age(now).number(self.request.limit.into()).done()?);
        let purged = delete.execute(&mut *tx).await.map_err(classify)?;
        if let Some(forget) = self.forget {
            forget.with(self.age(now).done()?).execute(tx).await.map_err(classify)?;
        }
        Ok(Purged { purged: purged.rows_affected() })
    }
}
