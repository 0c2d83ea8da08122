//! Lanes: a session leases them, reads them in order and settles; nothing is written per entry before that.

mod attend;
mod backlog;
mod bury;
mod read;
mod settle;

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::{fetch_lanes, passed_lanes, read_lanes};
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest, ReapRequest, Reaped,
    SessionId, Settled,
};
use pillarbox_core::{Result, RouteName};

use crate::bind::Bind;
use crate::store::MySqlStore;

use read::Looks;

pub(crate) use bury::reap;
pub(crate) use read::put;

#[async_trait]
impl Lanes for MySqlStore {
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
        let bind = session(&request.route, request.session);
        let bind = match &request.only {
            Some(only) => bind.json(only),
            None => bind.optional_text(None::<String>),
        };
        Ok(self.execute(&self.statements.lanes_isolate.with(bind)?).await?.rows > 0)
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

/// The values that name a session: `?1` the route, `?2` its id.
fn session(route: &RouteName, session: SessionId) -> Bind {
    Bind::new().bytes(route.as_str()).bytes(*session.0.as_bytes())
}
