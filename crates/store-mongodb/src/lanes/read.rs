//! Reading lanes: what comes next, what came late, what is still there, and what is dead.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::late::OpenAsk;
use pillarbox_core::port::shared::{Holding, LaneRows, OpenLanes, head};
use pillarbox_core::port::{Head, HeadsRequest, SessionId};
use pillarbox_core::{NO_LANE, Result, RouteName};

use super::{session, session_id, waiting};
use crate::adopt::plain_one;
use crate::call::{Link, Reading, Traffic};
use crate::command::{Change, Find, aggregate, now, stamps, update};
use crate::row::{Cells, decode, number, number_of};
use crate::store::MongoStore;
use crate::tables::{ENDED, LANE, OPEN, SEQ, Tables};

/// The most entries of a lane that one look tells: its answer is one document, which has a limit.
const LANE_AT_ONCE: u32 = 500_000;

pub(super) async fn heads(store: &MongoStore, request: HeadsRequest) -> Result<Vec<Head>> {
    heads_of(&store.tables, &request.route, &request.lanes, &mut store.link(Traffic::Relay)).await
}

/// Entries with a key that lanes do not read and that may hold back what is behind them: the dead, and what relays by rows
/// have in flight. In order of seq.
pub(super) async fn heads_of(
    tables: &Tables,
    route: &RouteName,
    lanes: &[u8],
    link: &mut Link<'_>,
) -> Result<Vec<Head>> {
    let lanes: Vec<i32> = lanes.iter().copied().map(i32::from).collect();
    let filter = |status: &str, settled: Bson| {
        doc! {
            "status": status, "settled_at": settled, "route": route.as_str(), "lane": { "$in": &lanes },
            "key": { "$ne": Bson::Null },
        }
    };
    let mut heads = Vec::new();
    for (status, settled, index) in
        [("dead", doc! { "$exists": true }.into(), ENDED), ("in_flight", Bson::Null, OPEN)]
    {
        let find = Find::new(&tables.outbox, filter(status, settled)).hint(tables.index(index));
        for document in link.find(find.fields(&["seq", "key", "lane"])).await? {
            let value = |name: &str| document.get(name).cloned().unwrap_or(Bson::Null);
            let is_dead = Bson::from(status == "dead");
            heads.push(head(&mut Cells::values(vec![value("seq"), value("key"), value("lane"), is_dead]))?);
        }
    }
    heads.sort_unstable_by_key(|head| head.seq);
    Ok(heads)
}

/// The looks of a read.
pub(super) struct Looks<'a>(pub(super) &'a MongoStore);

#[async_trait]
impl OpenLanes for Looks<'_> {
    async fn holding(&self, route: &RouteName, id: SessionId) -> Result<Holding> {
        let (tables, reader) = (&self.0.tables, session_id(route, id));
        let held =
            vec![doc! { "$match": { "route": route.as_str(), "session": reader.get("session").cloned() } }];
        let pipeline = vec![
            doc! { "$match": { "_id": reader } },
            doc! { "$lookup": { "from": &tables.lane, "pipeline": held, "as": "lanes" } },
            doc! { "$lookup": { "from": &tables.outbox, "pipeline": plain_one(), "as": "plain" } },
            doc! { "$project": {
                "handed": 1, "now": now(None), "lanes.lane": 1, "lanes.fence": 1, "lanes.revision": 1,
                "plain": { "$size": "$plain" },
            } },
        ];
        let found =
            self.0.rows(Traffic::Relay, aggregate(&tables.lane_session, pipeline), Reading::Newest).await?;
        let Some(found) = found.first() else {
            let now = self.0.link(Traffic::Relay).now_or(None).await?;
            return Ok(Holding { handed: None, lanes: BTreeMap::new(), now });
        };
        if number(found, "plain") > 0 {
            self.0.adopt(Traffic::Relay).await?;
        }
        let value = |of: &Document, name: &str| of.get(name).cloned().unwrap_or(Bson::Null);
        let begin = || vec![value(found, "now"), value(found, "handed")];
        let mut rows = vec![Cells::values(begin())];
        for lane in
            found.get_array("lanes").map_or(&[][..], Vec::as_slice).iter().filter_map(Bson::as_document)
        {
            let mut row = begin();
            row.extend(["lane", "fence", "revision"].map(|name| value(lane, name)));
            rows.push(Cells::values(row));
        }
        Holding::read(rows)
    }

    /// From one snapshot.
    async fn open(
        &self,
        route: &RouteName,
        mut asks: Vec<OpenAsk>,
        deep: Vec<OpenAsk>,
    ) -> Result<BTreeMap<u8, Vec<i64>>> {
        asks.extend(deep);
        let mut open: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        let Some(look) = open_look(&self.0.tables, route, &asks) else { return Ok(open) };
        for document in self.0.rows(Traffic::Relay, look, Reading::Snapshot).await? {
            let lane = u8::try_from(number(&document, "_id")).unwrap_or(u8::MAX);
            let seqs = document.get_array("seqs").map_or(&[][..], Vec::as_slice);
            open.entry(lane).or_default().extend(seqs.iter().filter_map(number_of));
        }
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
        let mut filter = doc! { "seq": { "$in": stamps(seqs.iter().copied()) }, "route": route.as_str() };
        filter.extend(waiting());
        filter.insert("lane", doc! { "$lt": i32::from(NO_LANE) });
        let find = Find::new(&self.0.tables.outbox, filter).hint(self.0.tables.index(SEQ));
        for document in self.0.rows(Traffic::Relay, find.command(), Reading::Snapshot).await? {
            rows.put(decode(document), holding);
        }
        rows.entries.sort_unstable_by_key(|entry| entry.seq);
        if rows.newest > handed {
            let note = Change::all(session(route, id), doc! { "$max": { "handed": rows.newest } });
            if self.0.execute(update(&self.0.tables.lane_session, [note])).await?.found == 0 {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }
}

/// One arm a lane: there is no limit for each of them that an index could find.
pub(crate) fn open_look(tables: &Tables, route: &RouteName, asks: &[OpenAsk]) -> Option<Document> {
    let arm = |ask: &OpenAsk| {
        let mut filter = doc! { "route": route.as_str(), "lane": i32::from(ask.lane) };
        filter.extend(waiting());
        vec![
            doc! { "$match": filter },
            doc! { "$sort": { "seq": 1 } },
            doc! { "$limit": i64::from(ask.limit.min(LANE_AT_ONCE)) },
            doc! { "$group": { "_id": "$lane", "seqs": { "$push": "$seq" } } },
        ]
    };
    let (first, rest) = asks.split_first()?;
    let mut pipeline = arm(first);
    pipeline.extend(
        rest.iter().map(|ask| doc! { "$unionWith": { "coll": &tables.outbox, "pipeline": arm(ask) } }),
    );
    let mut command = aggregate(&tables.outbox, pipeline);
    command.insert("hint", tables.index(LANE));
    Some(command)
}
