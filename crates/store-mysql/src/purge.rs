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
use crate::sql::{Bound, Sql, Statements};
use crate::store::MySqlStore;

impl MySqlStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        // The index has the settled entries of each route in the order of their time.
        let mut parts = Vec::new();
        for status in [Status::Delivered, Status::Discarded].map(number) {
            let of = |route| Part { count: &s.purgeable, delete: &s.purge, of: Some((status, route)) };
            parts.extend(self.routes_in(status).await?.into_iter().map(of));
        }
        self.purge_by(&request, parts, &s.purge_audit, None).await
    }

    pub(crate) async fn purge_accepted(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        let part = Part { count: &s.inbox_purgeable, delete: &s.inbox_purge, of: None };
        self.purge_by(&request, vec![part], &s.inbox_purge_audit, Some(&s.fence_purge)).await
    }

    pub(crate) async fn purge_ended(&self, request: PurgeRequest) -> Result<Purged> {
        let s = &self.statements;
        let part = Part { count: &s.saga_purgeable, delete: &s.saga_purge, of: None };
        self.purge_by(&request, vec![part], &s.saga_purge_audit, None).await
    }

    async fn purge_by(
        &self,
        request: &PurgeRequest,
        parts: Vec<Part<'_>>,
        audit: &Sql,
        forget: Option<&Sql>,
    ) -> Result<Purged> {
        request.check()?;
        let purge = Purge { statements: &self.statements, request, parts, audit, forget };
        // Most of the time there is nothing to do; a look takes no locks.
        let mut purged = 0;
        for part in &purge.parts {
            let look = part.count(request, request.now, purged)?;
            purged += count_of(&self.rows(Traffic::Reading, &look).await?)?;
        }
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
    parts: Vec<Part<'a>>,
    audit: &'a Sql,
    /// What else goes by the same age.
    forget: Option<&'a Sql>,
}

/// Some of the rows.
struct Part<'a> {
    count: &'a Sql,
    delete: &'a Sql,
    /// Of entries: the number of their status, and their route.
    of: Option<(i64, Vec<u8>)>,
}

impl Part<'_> {
    /// The look at how many rows go, after so many of other parts.
    fn count(&self, request: &PurgeRequest, now: Option<Timestamp>, before: u64) -> Result<Bound> {
        self.count.with(self.bind(request, now, u64::from(request.limit).saturating_sub(before)))
    }

    fn bind(&self, request: &PurgeRequest, now: Option<Timestamp>, limit: u64) -> Bind {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let bind = age(request, now).number(limit);
        match &self.of {
            Some((status, route)) => bind.number(*status).bytes(route.clone()),
            None => bind,
        }
    }
}

fn age(request: &PurgeRequest, now: Option<Timestamp>) -> Bind {
    Bind::new().at(now).number(micros(request.older_than))
}

fn count_of(rows: &[MySqlRow]) -> Result<u64> {
    rows.first().map_or(Ok(0), |row| Cells::of(row).count())
}

#[async_trait]
impl UnitOfWork for Purge<'_> {
    type Outcome = Purged;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Purged> {
        // One time for all: what is counted is what is deleted, unless another purge is at it as well.
        let now = Some(self.statements.now_or(self.request.now, tx).await?);
        let (mut found, mut total) = (Vec::with_capacity(self.parts.len()), 0);
        for part in &self.parts {
            found.push(count_of(&part.count(self.request, now, total)?.rows(tx).await?)?);
            total += found.last().copied().unwrap_or(0);
        }
        if total == 0 {
            return Ok(Purged::default());
        }
        let audit = Bind::new().at(now).text(&self.request.actor).text(total.to_string());
        self.audit.with(audit)?.execute(tx).await?;
        let mut purged = 0;
        for (part, found) in self.parts.iter().zip(found).filter(|(_, found)| *found > 0) {
            let delete = part.delete.with(part.bind(self.request, now, found))?;
            purged += delete.execute(tx).await?.rows;
        }
        if let Some(forget) = self.forget {
            forget.with(age(self.request, now))?.execute(tx).await?;
        }
        Ok(Purged { purged })
    }
}
