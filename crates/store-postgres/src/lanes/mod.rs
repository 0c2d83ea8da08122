//! Reading by lanes: which session holds which lane, the entries of a lane, and their outcomes.

mod attend;
mod backlog;
mod hint;
pub(crate) mod mend;
mod read;
mod recent;
pub(crate) mod row;
mod settle;

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest, ReapRequest, Reaped,
    Settled,
};
use pillarbox_core::{Result, RouteName};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::store::PostgresStore;

#[async_trait]
impl Lanes for PostgresStore {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        self.attend_lanes(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        self.read_lanes(request).await
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        self.passed_lanes(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        self.fetch_lanes(request).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        self.lane_heads(request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        let bind = Bind::new().text(request.route.as_str()).value(request.session.0).value(request.only);
        let sql = &self.sql().lanes_isolate;
        Ok(!self.run(Traffic::Relay, Again::Always, sql, bind.done()?).await?.is_empty())
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        self.reap_row_leases(request).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        self.settle_lanes(request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        self.hand_lanes_over(request).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}

/// The lanes of a request as the database has them.
fn numbers(lanes: &[u8]) -> Vec<i16> {
    lanes.iter().copied().map(i16::from).collect()
}
