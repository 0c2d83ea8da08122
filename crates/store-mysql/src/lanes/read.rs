//! Reading lanes: what comes next, what came late, what is still there, and what is dead.

use std::collections::BTreeMap;

use pillarbox_core::late::{OpenAsk, OpenCursor, Shown};
use pillarbox_core::port::shared::{Columns, Holding, LaneRows, head};
use pillarbox_core::port::{
    FetchRequest, Fetched, Head, HeadsRequest, LaneCursor, LaneRead, LaneSeen, LaneWish, Passed,
    PassedRequest, ReadRequest, SessionId,
};
use pillarbox_core::{Result, RouteName};
use sqlx::mysql::MySqlRow;

use super::session;
use crate::bind::Bind;
use crate::call::Traffic;
use crate::row::{Cells, decode};
use crate::sql::{Bound, Statements};
use crate::store::MySqlStore;

/// Each look is a moment of its own. The lanes come first: what changes after it is announced by the next one.
pub(super) async fn read(store: &MySqlStore, request: ReadRequest) -> Result<LaneRead> {
    request.check()?;
    let holding = holding(store, &request.route, request.session).await?;
    let Some(handed) = holding.handed else { return Ok(LaneRead::lost(holding.now)) };
    let mut cursor = OpenCursor::of(&request.cursor, &request.lanes);
    let is_read = |wish: &&LaneWish| wish.limit > 0 && holding.lanes.contains_key(&wish.lane);
    let wishes: Vec<&LaneWish> = request.lanes.iter().filter(is_read).collect();
    let asks: Vec<OpenAsk> = wishes.iter().map(|wish| cursor.ask(wish)).collect();
    let (deep, flat) = asks.into_iter().partition(|ask| cursor.is_deep(ask.lane));
    let open = open(store, &request.route, flat, deep).await?;
    let mut shown = Shown::default();
    for wish in &wishes {
        cursor.take(wish, open.get(&wish.lane).map_or(&[][..], Vec::as_slice), &mut shown);
    }
    let Some(rows) = take(store, &request.route, request.session, &holding, handed, &shown.fresh).await?
    else {
        return Ok(LaneRead::lost(holding.now));
    };
    let seen = |wish: &&LaneWish| {
        let (_, revision) = holding.lanes.get(&wish.lane)?;
        Some(LaneSeen { lane: wish.lane, revision: *revision, read_to: cursor.at(wish.lane) })
    };
    Ok(LaneRead {
        lanes: wishes.iter().filter_map(seen).collect(),
        entries: rows.entries,
        undecodable: rows.undecodable,
        behind: shown.late,
        cursor: LaneCursor::new(cursor),
        ..LaneRead::nothing(holding.now)
    })
}

pub(super) async fn passed(store: &MySqlStore, request: PassedRequest) -> Result<Passed> {
    request.check()?;
    let holding = holding(store, &request.route, request.session).await?;
    if holding.handed.is_none() {
        return Ok(Passed { lost: true, ..Passed::default() });
    }
    let cursor = OpenCursor::of(&request.cursor, &request.lanes);
    let held = |wish: &LaneWish| Some((wish.lane, holding.lanes.get(&wish.lane)?.1));
    let revisions: Vec<(u8, i64)> = request.lanes.iter().filter_map(held).collect();
    let asks: Vec<OpenAsk> =
        revisions.iter().map(|(lane, _)| OpenAsk { lane: *lane, limit: u32::MAX }).collect();
    let open = open(store, &request.route, asks, vec![]).await?;
    let mut seqs = Vec::new();
    for (lane, open) in open {
        let mark = cursor.at(lane);
        seqs.extend(open.into_iter().take_while(|seq| *seq <= mark));
    }
    Ok(Passed { lost: false, seqs, revisions })
}

pub(super) async fn fetch(store: &MySqlStore, request: FetchRequest) -> Result<Fetched> {
    let holding = holding(store, &request.route, request.session).await?;
    let mut fetched = Fetched::nothing(holding.now);
    let rows = match holding.handed {
        Some(handed) => take(store, &request.route, request.session, &holding, handed, &request.seqs).await?,
        None => None,
    };
    match rows {
        Some(rows) => (fetched.entries, fetched.undecodable) = (rows.entries, rows.undecodable),
        None => fetched.lost = true,
    }
    Ok(fetched)
}

pub(super) async fn heads(store: &MySqlStore, request: HeadsRequest) -> Result<Vec<Head>> {
    let look = heads_look(&store.statements, &request.route, &request.lanes)?;
    heads_of(&store.rows(Traffic::Reading, &look).await?)
}

/// The look at what stands before other entries of its key and is not read.
pub(super) fn heads_look(statements: &Statements, route: &RouteName, lanes: &[u8]) -> Result<Bound> {
    statements.lanes_heads.with(Bind::new().bytes(route.as_str()).json(&lanes))
}

/// What that look has shown, in order of seq.
pub(super) fn heads_of(rows: &[MySqlRow]) -> Result<Vec<Head>> {
    let mut heads = rows.iter().map(|row| head(&mut Cells::of(row))).collect::<Result<Vec<_>>>()?;
    heads.sort_unstable_by_key(|head| head.seq);
    Ok(heads)
}

/// What a session holds at this moment.
async fn holding(store: &MySqlStore, route: &RouteName, id: SessionId) -> Result<Holding> {
    let look = store.statements.lanes_held.with(session(route, id))?;
    Holding::read(store.rows(Traffic::Reading, &look).await?.iter().map(Cells::of))
}

/// What is open in each lane, in order. Lanes that are not deep are looked at together. That is much cheaper, but it has
/// no limit for each of them: if there is more in them than all may tell, each is looked at by itself as well.
async fn open(
    store: &MySqlStore,
    route: &RouteName,
    flat: Vec<OpenAsk>,
    mut deep: Vec<OpenAsk>,
) -> Result<BTreeMap<u8, Vec<i64>>> {
    let mut open: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
    let most: i64 = flat.iter().map(|ask| i64::from(ask.limit)).sum();
    let bind = Bind::new().bytes(route.as_str()).number(most);
    let lanes = flat.iter().map(|ask| i64::from(ask.lane)).collect();
    for look in store.statements.lanes_all.with(&bind, lanes)? {
        put(&store.rows(Traffic::Reading, &look).await?, &mut open)?;
    }
    let told: usize = open.values().map(Vec::len).sum();
    if i64::try_from(told).unwrap_or(i64::MAX) >= most {
        open.clear();
        deep.extend(flat);
    }
    if !deep.is_empty() {
        put(&store.rows(Traffic::Reading, &one_by_one(store, route, &deep)?).await?, &mut open)?;
    }
    open.values_mut().for_each(|seqs| seqs.sort_unstable());
    Ok(open)
}

/// The look at each of these lanes by itself.
fn one_by_one(store: &MySqlStore, route: &RouteName, asks: &[OpenAsk]) -> Result<Bound> {
    let (sql, arms) = store.statements.lanes_open.of(asks.len());
    // An arm that nobody asked for finds nothing: there is no such lane.
    let arm = |bind: Bind, ask: Option<&OpenAsk>| {
        let (lane, limit) = ask.map_or((-1, 0), |ask| (i64::from(ask.lane), i64::from(ask.limit)));
        bind.number(lane).bytes(route.as_str()).number(limit)
    };
    let bind = (0..arms).fold(Bind::new(), |bind, place| arm(bind, asks.get(place)));
    sql.with(bind)
}

fn put(rows: &[MySqlRow], open: &mut BTreeMap<u8, Vec<i64>>) -> Result<()> {
    for row in rows {
        let mut row = Cells::of(row);
        let lane = u8::try_from(row.number()?).unwrap_or(u8::MAX);
        open.entry(lane).or_default().push(row.number()?);
    }
    Ok(())
}

/// Reads rows of held lanes, and writes down how far, before anything of it is delivered. A burial of the session after
/// this counts them. `None`: the session was buried since it read, so nothing of that read may be delivered.
async fn take(
    store: &MySqlStore,
    route: &RouteName,
    id: SessionId,
    holding: &Holding,
    handed: i64,
    seqs: &[i64],
) -> Result<Option<LaneRows>> {
    let mut rows = LaneRows::default();
    if seqs.is_empty() {
        return Ok(Some(rows));
    }
    for fetch in store.statements.lanes_fetch.with(&Bind::new().bytes(route.as_str()), seqs.to_vec())? {
        for row in store.rows(Traffic::Reading, &fetch).await? {
            rows.put(decode(&row), holding);
        }
    }
    rows.entries.sort_unstable_by_key(|entry| entry.seq);
    if rows.newest > handed {
        let note = store.statements.lanes_note.with(session(route, id).number(rows.newest))?;
        if store.execute(&note).await?.rows == 0 {
            return Ok(None);
        }
    }
    Ok(Some(rows))
}
