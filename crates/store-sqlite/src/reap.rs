//! Returning expired leases, and burying what has no attempts left.

use async_trait::async_trait;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{Death, Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{EventId, Failure, Result};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::UnitOfWork;
use crate::error::classify;
use crate::lanes;
use crate::row::Cells;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

impl SqliteStore {
    /// Rows, and sessions of lanes: a relay of either kind returns what the other kind left.
    pub(crate) async fn reap_leases(&self, request: ReapRequest) -> Result<Reaped> {
        let sessions = lanes::reap(self, &request).await?;
        Ok(reap_rows(self, &request).await?.with_sessions(sessions))
    }
}

pub(crate) async fn reap_rows(store: &SqliteStore, request: &ReapRequest) -> Result<Reaped> {
    request.check()?;
    let step = Reap { statements: &store.statements, request };
    let mut reader = store.reader().await?;
    // Nearly always there is nothing to do; a look does not take the write lock.
    let found = step.find(&mut reader).await?;
    let suspects = step.suspects(&mut reader).await?;
    drop(reader);
    let stale = found.iter().filter(|stale| stale.leased).count();
    if found.is_empty() || request.effect == Effect::DryRun {
        return Ok(Reaped { stale: stale as u64, suspects, ..Reaped::default() });
    }
    let mut reaped = store.writer.durably(&step).await?;
    reaped.suspects = suspects || reaped.released > 0;
    Ok(reaped)
}

/// A row that a reap is about.
struct Stale {
    seq: i64,
    /// Whether it is in flight; if not, it is here because its attempts are spent.
    leased: bool,
    spent: bool,
    error: String,
    /// What would be told of its death.
    death: Death,
}

impl Stale {
    fn read(row: &SqliteRow) -> Result<Self> {
        let mut row = Cells::of(row);
        let seq = row.number()?;
        let event_id = row.event_id()?.unwrap_or(EventId(Uuid::nil()));
        let (route, event_type) = (row.route()?, row.text()?);
        let attempts = u32::try_from(row.number()?).unwrap_or(u32::MAX);
        let (leased, spent, error) = (row.flag()?, row.flag()?, row.text()?);
        let failure = Failure::parse(&error);
        Ok(Self {
            seq,
            leased,
            spent,
            error,
            death: Death { event_id, route, event_type, attempts, failure },
        })
    }
}

struct Reap<'a> {
    statements: &'a Statements,
    request: &'a ReapRequest,
}

impl Reap<'_> {
    /// Whether something that came back before waits to be taken.
    async fn suspects(&self, connection: &mut SqliteConnection) -> Result<bool> {
        let Some(route) = &self.request.route else { return Ok(false) };
        let arguments = Bind::new()
            .text(route.as_str())
            .number(u32::MAX.into())
            .number(1)
            .value(self.request.steps == Steps::Take)
            .done()?;
        let rows = self.statements.suspects.with(arguments).fetch_all(connection).await.map_err(classify)?;
        Ok(!rows.is_empty())
    }

    async fn routes(&self, connection: &mut SqliteConnection) -> Result<Vec<String>> {
        if let Some(route) = &self.request.route {
            return Ok(vec![route.to_string()]);
        }
        let rows = query(&self.statements.routes).fetch_all(connection).await.map_err(classify)?;
        rows.iter().map(|row| Cells::of(row).text()).collect()
    }

    async fn find(&self, connection: &mut SqliteConnection) -> Result<Vec<Stale>> {
        let request = self.request;
        let failure = Failure::lease_expired().to_string();
        let mut found = Vec::new();
        for route in self.routes(&mut *connection).await? {
            let left =
                i64::from(request.limit).saturating_sub(i64::try_from(found.len()).unwrap_or(i64::MAX));
            if left <= 0 {
                break;
            }
            let arguments = Bind::new()
                .at(request.now)
                .text(&route)
                .number(left)
                .value(request.max_attempts)
                .text(&failure)
                .value(request.leases == Leases::Impossible)
                .value(request.steps == Steps::Take)
                .done()?;
            let stale = self.statements.stale.with(arguments);
            for row in &stale.fetch_all(&mut *connection).await.map_err(classify)? {
                found.push(Stale::read(row)?);
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl UnitOfWork for &Reap<'_> {
    type Outcome = Reaped;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Reaped> {
        let found = self.find(&mut *tx).await?;
        let rows: Vec<_> = found.iter().map(|stale| (stale.seq, stale.spent, &stale.error)).collect();
        // The audit row comes before the status that it explains.
        let audit = Bind::new().at(self.request.now).text(&self.request.owner).json(&rows).done()?;
        self.statements.reap_audit.with(audit).execute(&mut *tx).await.map_err(classify)?;
        let reap = Bind::new().at(self.request.now).json(&rows).done()?;
        self.statements.reap.with(reap).execute(&mut *tx).await.map_err(classify)?;
        // Should the route be read by lanes: these entries were not theirs until now.
        let seqs: Vec<i64> = found.iter().map(|stale| stale.seq).collect();
        let revise = self.statements.lanes_revise.with(Bind::new().json(&seqs).done()?);
        revise.execute(tx).await.map_err(classify)?;
        let mut reaped = Reaped::default();
        for stale in found {
            reaped.stale += u64::from(stale.leased);
            if stale.spent {
                reaped.dead.push(stale.death);
            } else {
                reaped.released += 1;
            }
        }
        Ok(reaped)
    }
}
