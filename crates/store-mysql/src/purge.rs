//! Purging: what was settled, accepted, or ended long enough ago goes, in small batches.

use async_trait::async_trait;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Result, Status, Timestamp};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::claim::micros;
use crate::meant::number;
use crate::row::Cells;
use crate::sql::{Sql, Statements};
use crate::store::MySqlStore;

impl MySqlStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        let statuses = [Status::Delivered, Status::Discarded];
        let parts = statuses.map(|status| (&s.purge, number(status)));
        self.purge_by(&request, &s.purgeable, &s.purge_audit, &parts, None).await
    }

    pub(crate) async fn purge_accepted(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        let forget = Some(&s.fence_purge);
        self.purge_by(&request, &s.inbox_purgeable, &s.inbox_purge_audit, &[(&s.inbox_purge, 0)], forget)
            .await
    }

    pub(crate) async fn purge_ended(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        self.purge_by(&request, &s.saga_purgeable, &s.saga_purge_audit, &[(&s.saga_purge, 0)], None).await
    }

    async fn purge_by(
        &self,
        request: &PurgeRequest,
        count: &Sql,
        audit: &Sql,
        parts: &[(&Sql, i64)],
        forget: Option<&Sql>,
    ) -> Result<Purged> {
        request.check()?;
        let purge = Purge { statements: &self.statements, request, count, audit, parts, forget };
        // Most of the time there is nothing to do; a look takes no locks.
        let bind = purge.age(request.now).number(request.limit.into());
        let found = purge.found(&self.rows(Traffic::Reading, &count.with(bind)?).await?)?;
        let purged: u64 = found.iter().sum();
        if purged == 0 || request.effect == Effect::DryRun {
            return Ok(Purged { purged });
        }
        self.together(Traffic::Relay, &purge).await
    }
}

/// Rows that are counted, and then deleted by the same condition.
struct Purge<'a> {
    statements: &'a Statements,
    request: &'a PurgeRequest,
    count: &'a Sql,
    audit: &'a Sql,
    /// What deletes the rows of each count, and a value that it needs.
    parts: &'a [(&'a Sql, i64)],
    /// What else goes by the same age.
    forget: Option<&'a Sql>,
}

impl Purge<'_> {
    fn age(&self, now: Option<Timestamp>) -> Bind {
        Bind::new().at(now).number(micros(self.request.older_than))
    }

    /// How many rows each part deletes: together not more than the limit.
    fn found(&self, rows: &[MySqlRow]) -> Result<Vec<u64>> {
        let mut left = u64::from(self.request.limit);
        let Some(row) = rows.first() else { return Ok(vec![]) };
        let mut row = Cells::of(row);
        let mut part = || {
            let found = row.count()?.min(left);
            left -= found;
            Ok(found)
        };
        self.parts.iter().map(|_| part()).collect()
    }
}

#[async_trait]
impl UnitOfWork for Purge<'_> {
    type Outcome = Purged;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Purged> {
        // One time for all: what is counted is what is deleted, unless another purge is at it as well.
        let now = Some(self.statements.now_or(self.request.now, tx).await?);
        let count = self.count.with(self.age(now).number(self.request.limit.into()))?;
        let found = self.found(&count.rows(tx).await?)?;
        let total: u64 = found.iter().sum();
        if total == 0 {
            return Ok(Purged::default());
        }
        let audit = Bind::new().at(now).text(&self.request.actor).text(total.to_string());
        self.audit.with(audit)?.execute(tx).await?;
        let mut purged = 0;
        for ((delete, value), found) in self.parts.iter().zip(found) {
            let limit = i64::try_from(found).unwrap_or(i64::MAX);
            purged += delete.with(self.age(now).number(limit).number(*value))?.execute(tx).await?.rows;
        }
        if let Some(forget) = self.forget {
            forget.with(self.age(now))?.execute(tx).await?;
        }
        Ok(Purged { purged })
    }
}
