//! Reading lanes in a store that does not know which transactions may still commit.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::error::Result;
use crate::late::{OpenAsk, OpenCursor, Shown};
use crate::name::RouteName;
use crate::port::{
    FetchRequest, Fetched, LaneCursor, LaneRead, LaneSeen, LaneWish, Passed, PassedRequest, ReadRequest,
    SessionId,
};

use super::lanes::{Holding, LaneRows};

/// The looks of such a store. Each is a moment of its own.
#[async_trait]
pub trait OpenLanes: Sync {
    /// What a session holds at this moment.
    async fn holding(&self, route: &RouteName, session: SessionId) -> Result<Holding>;

    /// What is open in each lane, in order. The last look at a `deep` lane did not reach its end.
    async fn open(
        &self,
        route: &RouteName,
        flat: Vec<OpenAsk>,
        deep: Vec<OpenAsk>,
    ) -> Result<BTreeMap<u8, Vec<i64>>>;

    /// Reads rows of held lanes, and writes down how far, before anything of it is delivered. A burial of the session
    /// after this counts them. `None`: the session was buried since it read, so nothing of that read may be
    /// delivered.
    async fn take(
        &self,
        route: &RouteName,
        session: SessionId,
        holding: &Holding,
        handed: i64,
        seqs: &[i64],
    ) -> Result<Option<LaneRows>>;
}

/// Reads on in lanes. The look at the lanes comes first: what changes after it is announced by the next one.
///
/// # Errors
/// When the request breaks a rule, and any error of the store.
pub async fn read_lanes(store: &impl OpenLanes, request: ReadRequest) -> Result<LaneRead> {
    request.check()?;
    let holding = store.holding(&request.route, request.session).await?;
    let Some(handed) = holding.handed else { return Ok(LaneRead::lost(holding.now)) };
    let mut cursor = OpenCursor::of(&request.cursor, &request.lanes);
    let is_read = |wish: &&LaneWish| wish.limit > 0 && holding.lanes.contains_key(&wish.lane);
    let wishes: Vec<&LaneWish> = request.lanes.iter().filter(is_read).collect();
    let mut asks: Vec<OpenAsk> = wishes.iter().map(|wish| cursor.ask(wish)).collect();
    let (deep, flat) = asks.iter().partition(|ask| cursor.is_deep(ask.lane));
    let mut open = store.open(&request.route, flat, deep).await?;
    let mut more = Vec::new();
    for (wish, ask) in wishes.iter().zip(&mut asks) {
        if cursor.is_short(wish, ask, told(&open, wish)) {
            *ask = cursor.ask_more(wish);
            more.push(*ask);
        }
    }
    if !more.is_empty() {
        open.extend(store.open(&request.route, vec![], more).await?);
    }
    let mut shown = Shown::default();
    for (wish, ask) in wishes.iter().zip(&asks) {
        cursor.take(wish, ask, told(&open, wish), &mut shown);
    }
    let taken = store.take(&request.route, request.session, &holding, handed, &shown.fresh).await?;
    let Some(rows) = taken else { return Ok(LaneRead::lost(holding.now)) };
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

fn told<'a>(open: &'a BTreeMap<u8, Vec<i64>>, wish: &LaneWish) -> &'a [i64] {
    open.get(&wish.lane).map_or(&[], Vec::as_slice)
}

/// What is still open of what was read.
///
/// # Errors
/// As for [`read_lanes`].
pub async fn passed_lanes(store: &impl OpenLanes, request: PassedRequest) -> Result<Passed> {
    request.check()?;
    let holding = store.holding(&request.route, request.session).await?;
    if holding.handed.is_none() {
        return Ok(Passed { lost: true, ..Passed::default() });
    }
    let cursor = OpenCursor::of(&request.cursor, &request.lanes);
    let held = |wish: &LaneWish| Some((wish.lane, holding.lanes.get(&wish.lane)?.1));
    let revisions: Vec<(u8, i64)> = request.lanes.iter().filter_map(held).collect();
    let asks = revisions.iter().map(|(lane, _)| OpenAsk { lane: *lane, limit: u32::MAX }).collect();
    let mut seqs = Vec::new();
    for (lane, open) in store.open(&request.route, asks, vec![]).await? {
        let mark = cursor.at(lane);
        seqs.extend(open.into_iter().take_while(|seq| *seq <= mark));
    }
    Ok(Passed { lost: false, seqs, revisions })
}

/// Reads entries of held lanes by their sequence numbers.
///
/// # Errors
/// As for [`read_lanes`].
pub async fn fetch_lanes(store: &impl OpenLanes, request: FetchRequest) -> Result<Fetched> {
    let holding = store.holding(&request.route, request.session).await?;
    let mut fetched = Fetched::nothing(holding.now);
    let rows = match holding.handed {
        Some(handed) => store.take(&request.route, request.session, &holding, handed, &request.seqs).await?,
        None => None,
    };
    match rows {
        Some(rows) => (fetched.entries, fetched.undecodable) = (rows.entries, rows.undecodable),
        None => fetched.lost = true,
    }
    Ok(fetched)
}
