//! Lanes: a session leases them, reads them in order and settles; nothing is written per entry before that.

mod attend;
mod backlog;
mod bury;
mod cursor;
mod hand_over;
mod read;
mod settle;

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::Holding;
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest, ReapRequest, Reaped,
    SessionId, Settled,
};
use pillarbox_core::{Error, Result, RouteName};
use sqlx::SqliteConnection;

use crate::claim::seqs_json;
use crate::error::classify;
use crate::row::Cells;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

#[async_trait]
impl Lanes for SqliteStore {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        attend::attend(self, request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        read::read(self, request).await
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        read::passed(self, request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        read::fetch(self, request).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        read::heads(self, request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        let only = request.only.map(|only| seqs_json(&only)).transpose()?;
        let isolate = query(&self.statements.lanes_isolate)
            .bind(request.route.to_string())
            .bind(request.session.to_string())
            .bind(only);
        Ok(self.writer.execute(isolate).await? > 0)
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        crate::reap::reap_rows(self, &request).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        settle::settle(self, request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        hand_over::hand_over(self, request).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}

pub(crate) use bury::reap;

/// What a session holds at this moment.
async fn holding(
    statements: &Statements,
    route: &RouteName,
    session: SessionId,
    connection: &mut SqliteConnection,
) -> Result<Holding> {
    let look = query(&statements.lanes_held).bind(route.to_string()).bind(session.to_string());
    Holding::read(look.fetch_all(connection).await.map_err(classify)?.iter().map(Cells::of))
}

/// Numbers of lanes as the JSON parameter that statements read: `[lane, …]`.
fn lanes_json(lanes: &[u8]) -> Result<String> {
    serde_json::to_string(lanes).map_err(|_| Error::invalid("a lane cannot be written as JSON"))
}
