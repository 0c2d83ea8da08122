//! Burying a session: what it may have had in flight has spent one attempt, and its lanes are free.

use std::collections::{BTreeSet, HashMap};

use pillarbox_core::port::{AttendRequest, DeadHead, Death};
use pillarbox_core::{Error, EventId, Failure, FailureKind, Result, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::{hand_over, read};
use crate::error::classify;
use crate::sql::{Statements, query};

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
    fn of(row: &SqliteRow, request: &AttendRequest, failure: &Failure) -> Result<Self> {
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
                route: request.route.clone(),
                event_type: row.try_get_unchecked(2).map_err(classify)?,
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
                failure: failure.clone(),
            },
        })
    }
}

/// Buries one session of the request's route, and tells what died with it.
pub(super) async fn bury(
    statements: &Statements,
    request: &AttendRequest,
    session: String,
    now: Timestamp,
    tx: &mut SqliteConnection,
) -> Result<Vec<Death>> {
    let failure =
        Failure::new(FailureKind::LeaseExpired, "lease_expired", "nobody settled it before its lease ended");
    let route = request.route.to_string();
    let rows = query(&statements.lanes_in_flight)
        .bind(now.as_micros())
        .bind(route.clone())
        .bind(session.clone())
        .bind(request.max_attempts)
        .fetch_all(&mut *tx)
        .await
        .map_err(classify)?;
    let read: Vec<Read> = rows.iter().map(|row| Read::of(row, request, &failure)).collect::<Result<_>>()?;
    let lanes: BTreeSet<u8> = read.iter().map(|entry| entry.lane).collect();
    let lanes: Vec<u8> = lanes.into_iter().collect();
    let dead = if request.skips_dead {
        Vec::new()
    } else {
        read::dead_heads(statements, &request.route, &lanes, &mut *tx).await?
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
            .bind(request.owner.clone())
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
fn in_flight(read: Vec<Read>, dead: Vec<DeadHead>) -> Vec<Read> {
    let waiting = read.iter().filter(|entry| !entry.due);
    let waiting = waiting.filter_map(|entry| Some((entry.key.clone()?, entry.seq)));
    let mut heads: HashMap<String, i64> = HashMap::new();
    for (key, seq) in waiting.chain(dead.into_iter().map(|head| (head.key, head.seq))) {
        heads.entry(key).and_modify(|first| *first = seq.min(*first)).or_insert(seq);
    }
    let is_behind = |entry: &Read| {
        let head = entry.key.as_ref().and_then(|key| heads.get(key));
        head.is_some_and(|head| *head < entry.seq)
    };
    read.into_iter().filter(|entry| entry.due && !is_behind(entry)).collect()
}
