//! Burying a session: what it may have had in flight has spent one attempt, and its lanes are free.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use pillarbox_core::port::{AttendRequest, Death, Effect, Head, HeadKind, ReapRequest, Reaped};
use pillarbox_core::{Error, EventId, Failure, FailureKind, Result, RouteName, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::{hand_over, read};
use crate::call::UnitOfWork;
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

/// An entry that a session has read and not settled.
struct Read {
    seq: i64,
    key: Option<String>,
    lane: u8,
    spent: bool,
    due: bool,
    /// What would be told of its death.
    death: Death,
}

impl Read {
    fn of(row: &SqliteRow, route: &RouteName, failure: &Failure) -> Result<Self> {
        let id: &str = row.try_get_unchecked(1).map_err(classify)?;
        let attempts: i64 = row.try_get_unchecked(5).map_err(classify)?;
        Ok(Self {
            seq: row.try_get_unchecked(0).map_err(classify)?,
            key: row.try_get_unchecked(3).map_err(classify)?,
            lane: row.try_get_unchecked(4).map_err(classify)?,
            spent: row.try_get_unchecked(6).map_err(classify)?,
            due: row.try_get_unchecked(7).map_err(classify)?,
            death: Death {
                event_id: Uuid::try_parse(id).map_or(EventId(Uuid::nil()), EventId),
                route: route.clone(),
                event_type: row.try_get_unchecked(2).map_err(classify)?,
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
                failure: failure.clone(),
            },
        })
    }
}

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
    let failure = Failure::new(
        FailureKind::LeaseExpired,
        "lease_expired",
        "its lease ended before a relay recorded an outcome",
    );
    let route = request.route.to_string();
    let rows = query(&statements.lanes_in_flight)
        .bind(now.as_micros())
        .bind(route.clone())
        .bind(session.clone())
        .bind(request.max_attempts)
        .fetch_all(&mut *tx)
        .await
        .map_err(classify)?;
    let read: Vec<Read> =
        rows.iter().map(|row| Read::of(row, request.route, &failure)).collect::<Result<_>>()?;
    let lanes: BTreeSet<u8> = read.iter().map(|entry| entry.lane).collect();
    let lanes: Vec<u8> = lanes.into_iter().collect();
    let dead = if request.skips_dead {
        Vec::new()
    } else {
        read::heads_in(statements, request.route, &lanes, &mut *tx).await?
    };
    let in_flight = in_flight(read, dead);
    if !in_flight.is_empty() {
        let error = failure.to_string();
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

/// What may have been in flight: due, and not behind an entry of its key that waits for its time or is dead and not
/// skipped, because the followers of that one were never handed out.
fn in_flight(read: Vec<Read>, heads_known: Vec<Head>) -> Vec<Read> {
    let waiting = read.iter().filter(|entry| !entry.due);
    let waiting = waiting.filter_map(|entry| Some((entry.key.clone()?, entry.seq)));
    let mut heads: HashMap<String, i64> = HashMap::new();
    let dead = heads_known.into_iter().filter(|head| head.kind == HeadKind::Dead);
    for (key, seq) in waiting.chain(dead.map(|head| (head.key, head.seq))) {
        heads.entry(key).and_modify(|first| *first = seq.min(*first)).or_insert(seq);
    }
    let is_behind = |entry: &Read| {
        let head = entry.key.as_ref().and_then(|key| heads.get(key));
        head.is_some_and(|head| *head < entry.seq)
    };
    read.into_iter().filter(|entry| entry.due && !is_behind(entry)).collect()
}
