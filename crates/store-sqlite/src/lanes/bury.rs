//! Burying a session: what it may have had in flight has spent one attempt, and its lanes are free.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pillarbox_core::port::shared::{ReadEntry, in_flight, session_expired};
use pillarbox_core::port::{AttendRequest, Death, Effect, ReapRequest, Reaped};
use pillarbox_core::{Error, Result, RouteName, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::{hand_over, read};
use crate::call::UnitOfWork;
use crate::error::classify;
use crate::row::Cells;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

/// Buries sessions of lanes for a relay that reads the routes by rows, and counts those that are alive.
pub(crate) async fn reap(store: &SqliteStore, request: &ReapRequest) -> Result<Reaped> {
    let step = ReapSessions { statements: &store.statements, request };
    // Nearly always there is no session to bury; a look does not take the write lock.
    let mut reader = store.reader().await?;
    let expired = step.expired(request.now, &mut reader).await?.len();
    let mut reaped = Reaped { stale: expired as u64, ..Reaped::default() };
    if expired > 0 && request.effect == Effect::Apply {
        drop(reader);
        reaped.dead = store.writer.durably(&step).await?;
        reader = store.reader().await?;
    }
    let route = request.route.as_ref().map(RouteName::to_string);
    let count = query(&store.statements.lanes_sessions_count).bind(route);
    let row = count.fetch_one(&mut *reader).await.map_err(classify)?;
    reaped.lane_sessions = row.try_get_unchecked(0).map_err(classify)?;
    Ok(reaped)
}

struct ReapSessions<'a> {
    statements: &'a Statements,
    request: &'a ReapRequest,
}

impl ReapSessions<'_> {
    async fn expired(
        &self,
        now: Option<Timestamp>,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<(String, RouteName)>> {
        let rows = query(&self.statements.lanes_expired)
            .bind(now.map(Timestamp::as_micros))
            .bind(self.request.route.as_ref().map(RouteName::to_string))
            .bind(None::<String>)
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        let session = |row: &SqliteRow| {
            let route: String = row.try_get_unchecked(1).map_err(classify)?;
            Ok((row.try_get_unchecked(0).map_err(classify)?, RouteName::new(route)?))
        };
        rows.iter().map(session).collect()
    }
}

#[async_trait]
impl UnitOfWork for &ReapSessions<'_> {
    type Outcome = Vec<Death>;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Vec<Death>> {
        let now = match self.request.now {
            Some(now) => now,
            None => self.statements.now(tx).await?,
        };
        let mut deaths = Vec::new();
        for (session, route) in self.expired(Some(now), tx).await? {
            let burial = Burial {
                route: &route,
                owner: &self.request.owner,
                // The allowed attempts are not known: bury nothing.
                max_attempts: self.request.max_attempts.unwrap_or(u32::MAX),
                // It is unknown what that relay did with dead entries: every entry that may have been in
                // flight counts.
                skips_dead: true,
            };
            deaths.extend(burial.bury(self.statements, session, now, tx).await?);
        }
        Ok(deaths)
    }
}

/// The burial of sessions of a route: for whom, and by which rules.
pub(super) struct Burial<'a> {
    route: &'a RouteName,
    owner: &'a str,
    max_attempts: u32,
    skips_dead: bool,
}

impl<'a> Burial<'a> {
    pub(super) fn of(request: &'a AttendRequest) -> Self {
        let AttendRequest { route, owner, max_attempts, skips_dead, .. } = request;
        Self { route, owner, max_attempts: *max_attempts, skips_dead: *skips_dead }
    }

    /// Buries one session, and tells what died with it.
    pub(super) async fn bury(
        &self,
        statements: &Statements,
        session: String,
        now: Timestamp,
        tx: &mut SqliteConnection,
    ) -> Result<Vec<Death>> {
        bury(self, statements, session, now, tx).await
    }
}

async fn bury(
    request: &Burial<'_>,
    statements: &Statements,
    session: String,
    now: Timestamp,
    tx: &mut SqliteConnection,
) -> Result<Vec<Death>> {
    let route = request.route.to_string();
    let rows = query(&statements.lanes_in_flight)
        .bind(now.as_micros())
        .bind(route.clone())
        .bind(session.clone())
        .bind(request.max_attempts)
        .fetch_all(&mut *tx)
        .await
        .map_err(classify)?;
    let read = rows.iter().map(|row| ReadEntry::read(&mut Cells::of(row), request.route));
    let read = read.collect::<Result<Vec<_>>>()?;
    let lanes: BTreeSet<u8> = read.iter().map(|entry| entry.lane).collect();
    let lanes: Vec<u8> = lanes.into_iter().collect();
    let dead = if request.skips_dead {
        Vec::new()
    } else {
        read::heads_in(statements, request.route, &lanes, &mut *tx).await?
    };
    let in_flight = in_flight(read, dead);
    if !in_flight.is_empty() {
        let error = session_expired().to_string();
        let rows: Vec<_> = in_flight.iter().map(|entry| (entry.seq, entry.spent, &error)).collect();
        let json = serde_json::to_string(&rows)
            .map_err(|_| Error::invalid("an expired lease cannot be written as JSON"))?;
        // The audit row comes before the status that it explains.
        query(&statements.reap_audit)
            .bind(now.as_micros())
            .bind(request.owner.to_owned())
            .bind(json.clone())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        let spend = query(&statements.lanes_spend).bind(now.as_micros()).bind(json);
        spend.execute(&mut *tx).await.map_err(classify)?;
    }
    hand_over::leave(statements, &route, &session, tx).await?;
    Ok(in_flight.into_iter().filter(|entry| entry.spent).map(|entry| entry.death).collect())
}
