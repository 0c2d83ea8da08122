//! Reading lanes: what comes next, what is still there, and what is dead.

use futures_util::{Stream, TryStreamExt};
use pillarbox_core::port::shared::{Holding, LaneRows, head};
use pillarbox_core::port::{
    FetchRequest, Fetched, Head, HeadsRequest, LaneCursor, LaneRead, LaneSeen, LaneWish, Passed,
    PassedRequest, ReadRequest, SessionId,
};
use pillarbox_core::{Error, Result, RouteName};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use super::cursor::Cursor;
use super::lanes_json;
use crate::claim::seqs_json;
use crate::error::classify;
use crate::patience::patiently;
use crate::row::{Cells, decode};
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

pub(super) async fn read(store: &SqliteStore, request: ReadRequest) -> Result<LaneRead> {
    request.check()?;
    let statements = &store.statements;
    let mut cursor = Cursor::of(&request.cursor, &request.lanes);
    // A read transaction: one moment for all of it, in no writer's way.
    let mut reader = store.reader().await?;
    let mut tx = reader.begin().await.map_err(classify)?;
    let holding = super::holding(statements, &request.route, request.session, &mut tx).await?;
    let Some(handed) = holding.handed else { return Ok(LaneRead::lost(holding.now)) };
    let is_read = |wish: &&LaneWish| wish.limit > 0 && holding.lanes.contains_key(&wish.lane);
    let wishes: Vec<&LaneWish> = request.lanes.iter().filter(is_read).collect();
    let positions = positions_json(&cursor, &wishes)?;
    let next = query(&statements.lanes_next).bind(request.route.to_string()).bind(positions);
    let rows = take(next.fetch(&mut *tx), &holding).await?;
    tx.rollback().await.map_err(classify)?;
    drop(reader);
    if rows.newest > handed && !note(store, &request.route, request.session, rows.newest).await? {
        return Ok(LaneRead::lost(holding.now));
    }
    let entries = rows.entries.iter().filter_map(|entry| Some((entry.lane?, entry.seq)));
    let unreadable = rows.undecodable.iter().map(|row| (row.lane, row.row.held.seq));
    entries.chain(unreadable).for_each(|(lane, seq)| cursor.pass(lane, seq));
    let seen = |wish: &&LaneWish| {
        let (_, revision) = holding.lanes.get(&wish.lane)?;
        Some(LaneSeen { lane: wish.lane, revision: *revision, read_to: cursor.at(wish.lane) })
    };
    Ok(LaneRead {
        lanes: wishes.iter().filter_map(seen).collect(),
        entries: rows.entries,
        undecodable: rows.undecodable,
        cursor: LaneCursor::new(cursor),
        ..LaneRead::nothing(holding.now)
    })
}

pub(super) async fn passed(store: &SqliteStore, request: PassedRequest) -> Result<Passed> {
    request.check()?;
    let statements = &store.statements;
    let cursor = Cursor::of(&request.cursor, &request.lanes);
    let mut reader = store.reader().await?;
    let mut tx = reader.begin().await.map_err(classify)?;
    let holding = super::holding(statements, &request.route, request.session, &mut tx).await?;
    if holding.handed.is_none() {
        return Ok(Passed { lost: true, ..Passed::default() });
    }
    let held = request.lanes.iter().filter(|wish| holding.lanes.contains_key(&wish.lane));
    let wishes: Vec<&LaneWish> = held.collect();
    let positions = positions_json(&cursor, &wishes)?;
    let passed = query(&statements.lanes_passed).bind(request.route.to_string()).bind(positions);
    let rows = patiently(passed.fetch_all(&mut *tx)).await.map_err(classify)?;
    tx.rollback().await.map_err(classify)?;
    let seqs = rows.iter().map(|row| row.try_get_unchecked(0).map_err(classify)).collect::<Result<_>>()?;
    let revision = |wish: &&LaneWish| Some((wish.lane, holding.lanes.get(&wish.lane)?.1));
    Ok(Passed { lost: false, seqs, revisions: wishes.iter().filter_map(revision).collect() })
}

pub(super) async fn fetch(store: &SqliteStore, request: FetchRequest) -> Result<Fetched> {
    let statements = &store.statements;
    let mut reader = store.reader().await?;
    let mut tx = reader.begin().await.map_err(classify)?;
    let holding = super::holding(statements, &request.route, request.session, &mut tx).await?;
    let mut fetched = Fetched::nothing(holding.now);
    let Some(handed) = holding.handed else {
        return Ok(Fetched { lost: true, ..fetched });
    };
    if request.seqs.is_empty() {
        return Ok(fetched);
    }
    let rows = query(&statements.lanes_fetch).bind(request.route.to_string()).bind(seqs_json(&request.seqs)?);
    let rows = take(rows.fetch(&mut *tx), &holding).await?;
    tx.rollback().await.map_err(classify)?;
    drop(reader);
    if rows.newest > handed && !note(store, &request.route, request.session, rows.newest).await? {
        return Ok(Fetched { lost: true, ..fetched });
    }
    (fetched.entries, fetched.undecodable) = (rows.entries, rows.undecodable);
    Ok(fetched)
}

pub(super) async fn heads(store: &SqliteStore, request: HeadsRequest) -> Result<Vec<Head>> {
    let mut reader = store.reader().await?;
    heads_in(&store.statements, &request.route, &request.lanes, &mut reader).await
}

/// What stands before other entries of its key and is not read, in order of seq.
pub(super) async fn heads_in(
    statements: &Statements,
    route: &RouteName,
    lanes: &[u8],
    connection: &mut SqliteConnection,
) -> Result<Vec<Head>> {
    let rows = query(&statements.lanes_heads)
        .bind(route.to_string())
        .bind(lanes_json(lanes)?)
        .fetch_all(connection)
        .await
        .map_err(classify)?;
    let mut heads = rows.iter().map(|row| head(&mut Cells::of(row))).collect::<Result<Vec<_>>>()?;
    heads.sort_unstable_by_key(|head| head.seq);
    Ok(heads)
}

/// Writes down how far a session has read, before anything of it is delivered. A burial of the session after
/// this counts it. `false`: the session was buried since it read, so nothing of that read may be delivered.
async fn note(store: &SqliteStore, route: &RouteName, session: SessionId, seq: i64) -> Result<bool> {
    let note =
        query(&store.statements.lanes_note).bind(route.to_string()).bind(session.to_string()).bind(seq);
    Ok(store.writer.execute(note).await? > 0)
}

/// Takes each row of held lanes as it comes: all of them together are several times as large as their entries.
async fn take(
    mut rows: impl Stream<Item = sqlx::Result<SqliteRow>> + Unpin,
    holding: &Holding,
) -> Result<LaneRows> {
    let mut read = LaneRows::default();
    let all = async {
        while let Some(row) = rows.try_next().await.map_err(classify)? {
            read.put(decode(&row), holding);
        }
        Ok(())
    };
    patiently(all).await?;
    read.entries.sort_unstable_by_key(|entry| entry.seq);
    Ok(read)
}

/// Positions as the JSON parameter that statements read: `[[lane, cursor, wanted], …]`.
fn positions_json(cursor: &Cursor, wishes: &[&LaneWish]) -> Result<String> {
    let rows: Vec<_> = wishes.iter().map(|wish| (wish.lane, cursor.at(wish.lane), wish.limit)).collect();
    serde_json::to_string(&rows).map_err(|_| Error::invalid("a position cannot be written as JSON"))
}
