//! Reading lanes: what comes next, what is still there, and what is dead.

use std::collections::BTreeMap;

use pillarbox_core::port::{
    DeadHead, DeadRequest, FetchRequest, Fetched, LanePosition, LaneRead, LaneRow, ReadRequest, SessionId,
    Undecodable,
};
use pillarbox_core::{Entry, Error, Fence, Held, Result, RouteName};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use super::{Holding, lanes_json};
use crate::claim::seqs_json;
use crate::error::classify;
use crate::patience::patiently;
use crate::row::decode;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

pub(super) async fn read(store: &SqliteStore, request: ReadRequest) -> Result<LaneRead> {
    request.check()?;
    let statements = &store.statements;
    // A read transaction: one moment for all of it, in no writer's way.
    let mut reader = store.reader().await?;
    let mut tx = reader.begin().await.map_err(classify)?;
    let holding = Holding::look(statements, &request.route, request.session, &mut tx).await?;
    let mut read = LaneRead::nothing(holding.now);
    let Some(handed) = holding.handed else {
        return Ok(LaneRead { lost: true, ..read });
    };
    let positions: Vec<&LanePosition> =
        request.positions.iter().filter(|position| holding.lanes.contains_key(&position.lane)).collect();
    let json = positions_json(&positions)?;
    if positions.iter().any(|position| position.floor < position.cursor) {
        let present = query(&statements.lanes_present).bind(request.route.to_string()).bind(json.clone());
        read.present = patiently(present.fetch_all(&mut *tx))
            .await
            .map_err(classify)?
            .iter()
            .map(|row| row.try_get_unchecked(0).map_err(classify))
            .collect::<Result<_>>()?;
    }
    let mut rows = Rows::default();
    if positions.iter().any(|position| position.limit > 0) {
        let next = query(&statements.lanes_next).bind(request.route.to_string()).bind(json);
        rows = Rows::read(&patiently(next.fetch_all(&mut *tx)).await.map_err(classify)?, &holding)?;
    }
    tx.rollback().await.map_err(classify)?;
    drop(reader);
    read.revisions = holding.lanes.iter().map(|(lane, (_, revision))| (*lane, *revision)).collect();
    read.revisions.retain(|(lane, _)| positions.iter().any(|position| position.lane == *lane));
    if rows.newest > handed && !note(store, &request.route, request.session, rows.newest).await? {
        return Ok(LaneRead { lost: true, ..LaneRead::nothing(read.now) });
    }
    // There is one writer at a time: nobody draws a seq before the one that drew a lower one has ended.
    Ok(LaneRead { entries: rows.entries, undecodable: rows.undecodable, drawn: i64::MAX, ..read })
}

pub(super) async fn fetch(store: &SqliteStore, request: FetchRequest) -> Result<Fetched> {
    let statements = &store.statements;
    let mut reader = store.reader().await?;
    let mut tx = reader.begin().await.map_err(classify)?;
    let holding = Holding::look(statements, &request.route, request.session, &mut tx).await?;
    let mut fetched = Fetched::nothing(holding.now);
    let Some(handed) = holding.handed else {
        return Ok(Fetched { lost: true, ..fetched });
    };
    if request.seqs.is_empty() {
        return Ok(fetched);
    }
    let rows = query(&statements.lanes_fetch).bind(request.route.to_string()).bind(seqs_json(&request.seqs)?);
    let rows = Rows::read(&patiently(rows.fetch_all(&mut *tx)).await.map_err(classify)?, &holding)?;
    tx.rollback().await.map_err(classify)?;
    drop(reader);
    if rows.newest > handed && !note(store, &request.route, request.session, rows.newest).await? {
        return Ok(Fetched { lost: true, ..fetched });
    }
    (fetched.entries, fetched.undecodable) = (rows.entries, rows.undecodable);
    Ok(fetched)
}

pub(super) async fn dead(store: &SqliteStore, request: DeadRequest) -> Result<Vec<DeadHead>> {
    let mut reader = store.reader().await?;
    dead_heads(&store.statements, &request.route, &request.lanes, &mut reader).await
}

/// Dead entries with a key, in order of seq.
pub(super) async fn dead_heads(
    statements: &Statements,
    route: &RouteName,
    lanes: &[u8],
    connection: &mut SqliteConnection,
) -> Result<Vec<DeadHead>> {
    let rows = query(&statements.lanes_dead)
        .bind(route.to_string())
        .bind(lanes_json(lanes)?)
        .fetch_all(connection)
        .await
        .map_err(classify)?;
    let mut dead = rows
        .iter()
        .map(|row| {
            Ok(DeadHead {
                seq: row.try_get_unchecked(0).map_err(classify)?,
                key: row.try_get_unchecked(1).map_err(classify)?,
                lane: row.try_get_unchecked(2).map_err(classify)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    dead.sort_unstable_by_key(|head| head.seq);
    Ok(dead)
}

/// Writes down how far a session has read, before anything of it is delivered. Whoever buries the session after this
/// counts it; `false`: somebody has buried it since it read, and nothing of that may be delivered.
async fn note(store: &SqliteStore, route: &RouteName, session: SessionId, seq: i64) -> Result<bool> {
    let mut connection = store.writer().await?;
    let note =
        query(&store.statements.lanes_note).bind(route.to_string()).bind(session.to_string()).bind(seq);
    Ok(note.execute(&mut *connection).await.map_err(classify)?.rows_affected() > 0)
}

/// Rows of held lanes, in order of seq.
#[derive(Default)]
struct Rows {
    entries: Vec<Entry>,
    undecodable: Vec<LaneRow>,
    newest: i64,
}

impl Rows {
    fn read(rows: &[SqliteRow], holding: &Holding) -> Result<Self> {
        let fences: BTreeMap<u8, Fence> =
            holding.lanes.iter().map(|(lane, (fence, _))| (*lane, *fence)).collect();
        let mut read = Self { entries: Vec::with_capacity(rows.len()), ..Self::default() };
        for row in rows {
            let mut decoded = decode(row)?;
            let Some((lane, fence)) = decoded.lane.and_then(|lane| Some((lane, *fences.get(&lane)?))) else {
                continue;
            };
            read.newest = read.newest.max(decoded.entry.seq);
            match decoded.failure() {
                None => {
                    decoded.entry.lane = Some(lane);
                    read.entries.push(decoded.entry);
                }
                Some(failure) => {
                    let held = Held { seq: decoded.entry.seq, fence };
                    let event_id = decoded.id_known.then_some(decoded.entry.event_id);
                    let row = Undecodable { held, event_id, failure };
                    read.undecodable.push(LaneRow { lane, row });
                }
            }
        }
        read.entries.sort_unstable_by_key(|entry| entry.seq);
        Ok(read)
    }
}

/// Positions as the JSON parameter that statements read: `[[lane, floor, cursor, wanted], …]`.
fn positions_json(positions: &[&LanePosition]) -> Result<String> {
    let rows: Vec<_> = positions
        .iter()
        .map(|position| (position.lane, position.floor, position.cursor, position.limit))
        .collect();
    serde_json::to_string(&rows).map_err(|_| Error::invalid("a position cannot be written as JSON"))
}
