//! Burying a session: what it may have had in flight has spent one attempt, and its lanes are free.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, ReadEntry, in_flight, session_expired};
use pillarbox_core::port::{AttendRequest, Death, Effect, ReapRequest, Reaped, SessionId};
use pillarbox_core::{Result, RouteName, Timestamp};
use sqlx::MySqlConnection;

use super::attend::leave;
use super::{read, session};
use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::row::Cells;
use crate::sql::{Bound, Statements};
use crate::store::MySqlStore;

/// Buries sessions of lanes for a relay that reads the routes by rows, and counts those that are alive.
pub(crate) async fn reap(store: &MySqlStore, request: &ReapRequest) -> Result<Reaped> {
    let statements = &store.statements;
    let route = request.route.as_ref().map(RouteName::as_str);
    // Nearly always there is no session to bury; a look takes no locks.
    let look = expired(statements, request.now, route, None)?;
    let expired = store.rows(Traffic::Reading, &look).await?.len();
    let mut reaped = Reaped { stale: expired as u64, ..Reaped::default() };
    if expired > 0 && request.effect == Effect::Apply {
        reaped.dead = store.together(Traffic::Relay, &ReapSessions { statements, request }).await?;
    }
    let count = statements.lanes_sessions_count.with(Bind::new().optional_text(route))?;
    let rows = store.rows(Traffic::Reading, &count).await?;
    let sessions = rows.first().map_or(Ok(0), |row| Cells::of(row).count())?;
    reaped.lane_sessions = u32::try_from(sessions).unwrap_or(u32::MAX);
    Ok(reaped)
}

struct ReapSessions<'a> {
    statements: &'a Statements,
    request: &'a ReapRequest,
}

#[async_trait]
impl UnitOfWork for ReapSessions<'_> {
    type Outcome = Vec<Death>;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Vec<Death>> {
        let (statements, request) = (self.statements, self.request);
        let now = statements.now_or(request.now, tx).await?;
        let burial = Burial {
            route: request.route.as_ref(),
            owner: &request.owner,
            // The allowed attempts are not known: bury nothing.
            max_attempts: request.max_attempts.unwrap_or(u32::MAX),
            // It is unknown what that relay did with dead entries: every entry that may have been in flight counts.
            skips_dead: true,
        };
        let mut deaths = Vec::new();
        for (session, route) in burial.expired(statements, now, None, tx).await? {
            let burial = Burial { route: Some(&route), ..burial };
            deaths.extend(burial.bury(statements, session, now, tx).await?.into_iter().flatten());
        }
        Ok(deaths)
    }
}

/// The look at the sessions whose lease has ended.
fn expired(
    statements: &Statements,
    now: Option<Timestamp>,
    route: Option<&str>,
    but: Option<SessionId>,
) -> Result<Bound> {
    let bind = Bind::new().at(now).optional_text(route);
    let bind = match but {
        Some(session) => bind.bytes(*session.0.as_bytes()),
        None => bind.optional_text(None::<String>),
    };
    statements.lanes_expired.with(bind)
}

/// The burial of sessions: of which route, for whom, and by which rules.
#[derive(Clone, Copy)]
pub(super) struct Burial<'a> {
    route: Option<&'a RouteName>,
    owner: &'a str,
    max_attempts: u32,
    skips_dead: bool,
}

impl<'a> Burial<'a> {
    pub(super) fn of(request: &'a AttendRequest) -> Self {
        let AttendRequest { route, owner, max_attempts, skips_dead, .. } = request;
        Self { route: Some(route), owner, max_attempts: *max_attempts, skips_dead: *skips_dead }
    }

    /// The sessions whose lease has ended, but for the one that asks.
    pub(super) async fn expired(
        &self,
        statements: &Statements,
        now: Timestamp,
        but: Option<SessionId>,
        tx: &mut MySqlConnection,
    ) -> Result<Vec<(SessionId, RouteName)>> {
        let look = expired(statements, Some(now), self.route.map(RouteName::as_str), but)?;
        let mut found = Vec::new();
        for row in &look.rows(tx).await? {
            let mut row = Cells::of(row);
            if let Some(session) = row.uuid()? {
                found.push((SessionId(session), RouteName::new(row.text()?)?));
            }
        }
        Ok(found)
    }

    /// Buries one session, and tells what died with it. `None`: it was renewed, or another relay has buried it.
    pub(super) async fn bury(
        &self,
        statements: &Statements,
        id: SessionId,
        now: Timestamp,
        tx: &mut MySqlConnection,
    ) -> Result<Option<Vec<Death>>> {
        let Some(route) = self.route else { return Ok(None) };
        let dead = Bind::new().at(Some(now)).bytes(route.as_str()).bytes(*id.0.as_bytes());
        if statements.lanes_lock.with(dead.clone())?.rows(tx).await?.is_empty() {
            return Ok(None);
        }
        // A settle of that session has committed by now, or finds that the lanes are not its own.
        statements.lanes_of.with(session(route, id))?.rows(tx).await?;
        let rows = statements.lanes_in_flight.with(dead.number(self.max_attempts.into()))?.rows(tx).await?;
        let read = rows.iter().map(|row| ReadEntry::read(&mut Cells::of(row), route));
        let read = read.collect::<Result<Vec<_>>>()?;
        let lanes: BTreeSet<u8> = read.iter().map(|entry| entry.lane).collect();
        let heads = if self.skips_dead {
            Vec::new()
        } else {
            let lanes: Vec<u8> = lanes.into_iter().collect();
            read::heads_of(&read::heads_look(statements, route, &lanes)?.rows(tx).await?)?
        };
        let in_flight = in_flight(read, heads);
        if !in_flight.is_empty() {
            let error = session_expired().to_string();
            let rows: Vec<_> = in_flight.iter().map(|entry| (entry.seq, entry.spent, &error)).collect();
            // The audit row comes before the status that it explains.
            let audit = Bind::new().at(Some(now)).text(self.owner).json(&rows);
            statements.reap_audit.with(audit)?.execute(tx).await?;
            statements.lanes_spend.with(Bind::new().at(Some(now)).json(&rows))?.execute(tx).await?;
        }
        leave(statements, route, id, tx).await?;
        Ok(Some(in_flight.into_iter().filter(|entry| entry.spent).map(|entry| entry.death).collect()))
    }
}
