//! Returning expired leases, and burying what has no attempts left.

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, Stale};
use pillarbox_core::port::{Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{Failure, Result};
use sqlx::SqliteConnection;

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
                found.push(Stale::read(&mut Cells::of(row))?);
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
        let rows: Vec<_> = found.iter().map(Stale::row).collect();
        // The audit row comes before the status that it explains.
        let audit = Bind::new().at(self.request.now).text(&self.request.owner).json(&rows).done()?;
        self.statements.reap_audit.with(audit).execute(&mut *tx).await.map_err(classify)?;
        let reap = Bind::new().at(self.request.now).json(&rows).done()?;
        self.statements.reap.with(reap).execute(&mut *tx).await.map_err(classify)?;
        // Should the route be read by lanes: these entries were not theirs until now.
        let seqs: Vec<i64> = found.iter().map(|stale| stale.seq).collect();
        let revise = self.statements.lanes_revise.with(Bind::new().json(&seqs).done()?);
        revise.execute(tx).await.map_err(classify)?;
        Ok(Reaped::of_rows(found))
    }
}
