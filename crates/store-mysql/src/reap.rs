//! Returning expired leases, and burying what has no attempts left.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pillarbox_core::port::shared::{EntryCells, Stale};
use pillarbox_core::port::{Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{Failure, Result};
use sqlx::MySqlConnection;

use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::lanes;
use crate::row::Cells;
use crate::sql::{Bound, Statements};
use crate::store::MySqlStore;

impl MySqlStore {
    /// Rows, and sessions of lanes: a relay of either kind returns what the other kind left.
    pub(crate) async fn reap_leases(&self, request: ReapRequest) -> Result<Reaped> {
        let sessions = lanes::reap(self, &request).await?;
        Ok(reap_rows(self, &request).await?.with_sessions(sessions))
    }
}

pub(crate) async fn reap_rows(store: &MySqlStore, request: &ReapRequest) -> Result<Reaped> {
    request.check()?;
    let mut reap = Reap { statements: &store.statements, request, routes: vec![] };
    reap.routes = match &request.route {
        Some(route) => vec![route.as_str().into()],
        None => {
            let (queue, had_before) = (store.routes_in(1).await?, store.routes_in(2).await?);
            queue.into_iter().chain(had_before).collect::<BTreeSet<_>>().into_iter().collect()
        }
    };
    // Nearly always there is nothing to do; a look takes no locks.
    let mut found = Vec::new();
    for route in &reap.routes {
        let rows = store.rows(Traffic::Reading, &reap.stale(route, found.len(), false)?).await?;
        reap.add(&rows, &mut found)?;
    }
    let suspects = match &request.route {
        Some(route) => {
            let bind = Bind::new().bytes(route.as_str()).flag(request.steps == Steps::Take);
            !store.rows(Traffic::Reading, &store.statements.suspects.with(bind)?).await?.is_empty()
        }
        None => false,
    };
    if found.is_empty() || request.effect == Effect::DryRun {
        let stale = found.iter().filter(|stale| stale.leased).count() as u64;
        return Ok(Reaped { stale, suspects, ..Reaped::default() });
    }
    let mut reaped = store.together(Traffic::Relay, &reap).await?;
    reaped.suspects = suspects || reaped.released > 0;
    Ok(reaped)
}

impl MySqlStore {
    /// The routes that have entries in a part of the open index.
    pub(crate) async fn routes_in(&self, part: i64) -> Result<Vec<Vec<u8>>> {
        let mut routes: Vec<Vec<u8>> = Vec::new();
        loop {
            let before = routes.last().cloned().unwrap_or_default();
            let look = self.statements.routes.with(Bind::new().number(part).bytes(before))?;
            match self.rows(Traffic::Reading, &look).await?.first() {
                Some(row) => routes.push(Cells::of(row).bytes().flatten().unwrap_or_default()),
                None => return Ok(routes),
            }
        }
    }
}

/// The next route that has entries in a part of the open index, as one transaction sees it.
pub(crate) async fn route_after(
    statements: &Statements,
    part: i64,
    before: Vec<u8>,
    connection: &mut MySqlConnection,
) -> Result<Option<Vec<u8>>> {
    let rows = statements.routes.with(Bind::new().number(part).bytes(before))?.rows(connection).await?;
    Ok(rows.first().map(|row| Cells::of(row).bytes().flatten().unwrap_or_default()))
}

struct Reap<'a> {
    statements: &'a Statements,
    request: &'a ReapRequest,
    routes: Vec<Vec<u8>>,
}

impl Reap<'_> {
    /// The look at a route, after so many rows of others.
    fn stale(&self, route: &[u8], found: usize, locks: bool) -> Result<Bound> {
        let request = self.request;
        let left = i64::from(request.limit).saturating_sub(i64::try_from(found).unwrap_or(i64::MAX)).max(0);
        let bind = Bind::new()
            .at(request.now)
            .bytes(route)
            .number(left)
            .optional_number(request.max_attempts.map(i64::from))
            .text(Failure::lease_expired().to_string())
            .flag(request.leases == Leases::Impossible)
            .flag(request.steps == Steps::Take);
        let stale = &self.statements.stale;
        if locks { stale.lock.with(bind) } else { stale.look.with(bind) }
    }

    /// Adds rows up to the limit: each arm of the look has told as many.
    fn add(&self, rows: &[sqlx::mysql::MySqlRow], found: &mut Vec<Stale>) -> Result<()> {
        for row in rows {
            found.push(Stale::read(&mut Cells::of(row))?);
        }
        found.truncate(usize::try_from(self.request.limit).unwrap_or(usize::MAX));
        Ok(())
    }
}

#[async_trait]
impl UnitOfWork for Reap<'_> {
    type Outcome = Reaped;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Reaped> {
        let (now, statements) = (self.request.now, self.statements);
        let mut found = Vec::new();
        for route in &self.routes {
            let rows = self.stale(route, found.len(), true)?.rows(tx).await?;
            self.add(&rows, &mut found)?;
        }
        let rows: Vec<_> = found.iter().map(Stale::row).collect();
        // The audit row comes before the status that it explains.
        let audit = Bind::new().at(now).text(&self.request.owner).json(&rows);
        statements.reap_audit.with(audit)?.execute(tx).await?;
        statements.reap.with(Bind::new().at(now).json(&rows))?.execute(tx).await?;
        // Should the route be read by lanes: these entries were not theirs until now.
        let seqs: Vec<i64> = found.iter().map(|stale| stale.seq).collect();
        statements.lanes_revise.with(Bind::new().json(&seqs))?.execute(tx).await?;
        Ok(Reaped::of_rows(found))
    }
}
