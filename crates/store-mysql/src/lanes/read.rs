//! Reading lanes: what comes next, what came late, what is still there, and what is dead.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::late::OpenAsk;
use pillarbox_core::port::shared::{Columns, Holding, LaneRows, OpenLanes, head};
use pillarbox_core::port::{Head, HeadsRequest, SessionId};
use pillarbox_core::{Result, RouteName};
use sqlx::mysql::MySqlRow;

use super::session;
use crate::bind::Bind;
use crate::call::Traffic;
use crate::row::{Cells, decode};
use crate::sql::{Bound, PerLane, Statements};
use crate::store::MySqlStore;

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

/// The looks of a read.
pub(super) struct Looks<'a>(pub(super) &'a MySqlStore);

#[async_trait]
impl OpenLanes for Looks<'_> {
    async fn holding(&self, route: &RouteName, id: SessionId) -> Result<Holding> {
        let look = self.0.statements.lanes_held.with(session(route, id))?;
        Holding::read(self.0.rows(Traffic::Reading, &look).await?.iter().map(Cells::of))
    }

    /// Lanes that are not deep are looked at together. That is much cheaper, but it has no limit for each of them: if
    /// there is more in them than all may tell, each is looked at by itself as well.
    async fn open(
        &self,
        route: &RouteName,
        flat: Vec<OpenAsk>,
        mut deep: Vec<OpenAsk>,
    ) -> Result<BTreeMap<u8, Vec<i64>>> {
        let mut open: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        let most: i64 = flat.iter().map(|ask| i64::from(ask.limit)).sum();
        let bind = Bind::new().bytes(route.as_str()).number(most);
        let lanes = flat.iter().map(|ask| i64::from(ask.lane)).collect();
        for look in self.0.statements.lanes_all.with(&bind, lanes)? {
            put(&self.0.rows(Traffic::Reading, &look).await?, &mut open)?;
        }
        let told: usize = open.values().map(Vec::len).sum();
        if i64::try_from(told).unwrap_or(i64::MAX) >= most {
            open.clear();
            deep.extend(flat);
        }
        if !deep.is_empty() {
            let look = one_by_one(&self.0.statements.lanes_open, route, &deep)?;
            put(&self.0.rows(Traffic::Reading, &look).await?, &mut open)?;
        }
        open.values_mut().for_each(|seqs| seqs.sort_unstable());
        Ok(open)
    }

    async fn take(
        &self,
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
        let of = Bind::new().bytes(route.as_str());
        for fetch in self.0.statements.lanes_fetch.with(&of, seqs.to_vec())? {
            for row in self.0.rows(Traffic::Reading, &fetch).await? {
                rows.put(decode(&row), holding);
            }
        }
        rows.entries.sort_unstable_by_key(|entry| entry.seq);
        if rows.newest > handed {
            let note = self.0.statements.lanes_note.with(session(route, id).number(rows.newest))?;
            if self.0.execute(&note).await?.rows == 0 {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }
}

/// A look at each of these lanes by itself.
pub(super) fn one_by_one(look: &PerLane, route: &RouteName, asks: &[OpenAsk]) -> Result<Bound> {
    let (sql, arms) = look.of(asks.len());
    // An arm that nobody asked for finds nothing: there is no such lane.
    let arm = |bind: Bind, ask: Option<&OpenAsk>| {
        let (lane, limit) = ask.map_or((-1, 0), |ask| (i64::from(ask.lane), i64::from(ask.limit)));
        bind.number(lane).bytes(route.as_str()).number(limit)
    };
    let bind = (0..arms).fold(Bind::new(), |bind, place| arm(bind, asks.get(place)));
    sql.with(bind)
}

/// Adds what is open in each lane.
pub(crate) fn put(rows: &[MySqlRow], open: &mut BTreeMap<u8, Vec<i64>>) -> Result<()> {
    for row in rows {
        let mut row = Cells::of(row);
        let lane = u8::try_from(row.number()?).unwrap_or(u8::MAX);
        open.entry(lane).or_default().push(row.number()?);
    }
    Ok(())
}
