//! Lanes: a session leases them, reads them in order and settles; nothing is written per entry before that.

mod attend;
mod backlog;
mod bury;
mod read;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::{fetch_lanes, passed_lanes, read_lanes};
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest, ReapRequest, Reaped,
    SessionId, Settled,
};
use pillarbox_core::{NO_LANE, Result, RouteName};

use crate::command::{Change, binary, update};
use crate::row::{number, text};
use crate::store::MongoStore;
use crate::tables::Tables;

use read::Looks;

pub(crate) use bury::reap;

#[async_trait]
impl Lanes for MongoStore {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        attend::attend(self, request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        read_lanes(&Looks(self), request).await
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        passed_lanes(&Looks(self), request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        fetch_lanes(&Looks(self), request).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        read::heads(self, request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        let only = request.only.map_or(Bson::Null, Bson::from);
        let isolate =
            Change::all(session(&request.route, request.session), doc! { "$set": { "isolated": only } });
        Ok(self.execute(update(&self.tables.lane_session, [isolate])).await?.found > 0)
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        settle::settle(self, request).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        crate::reap::reap_rows(self, &request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        attend::hand_over(self, request).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}

/// The filter of one session.
fn session(route: &RouteName, session: SessionId) -> Document {
    doc! { "_id": session_id(route, session) }
}

fn session_id(route: &RouteName, session: SessionId) -> Document {
    doc! { "route": route.as_str(), "session": binary(session.0) }
}

/// Entries that lanes read: what was claimed by rows is not theirs until it is reaped.
fn waiting() -> Document {
    doc! { "status": { "$in": ["pending", "retrying"] }, "settled_at": Bson::Null }
}

/// The routes and lanes of these entries.
pub(crate) fn revised(rows: &[Document]) -> BTreeSet<(String, i64)> {
    rows.iter().map(|row| (text(row, "route").to_owned(), number(row, "lane"))).collect()
}

/// Tells the readers of lanes that somebody else has changed one of their entries. `None`: of no lane.
pub(crate) fn revise(tables: &Tables, changed: &BTreeSet<(String, i64)>) -> Option<Document> {
    let changes = changed.iter().filter(|(_, lane)| *lane < NO_LANE.into()).map(|(route, lane)| {
        Change::all(doc! { "route": route, "lane": *lane }, doc! { "$inc": { "revision": 1_i64 } })
    });
    let changes: Vec<Change> = changes.collect();
    (!changes.is_empty()).then(|| update(&tables.lane, changes))
}
