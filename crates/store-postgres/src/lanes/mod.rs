//! Reading by lanes: who holds which, what is in them, and what came of it.

mod attend;
mod place;
mod read;
mod recent;
pub(crate) mod row;
mod settle;

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, DeadHead, DeadRequest, FetchRequest, Fetched, HandOverRequest, LaneRead,
    LaneSettleRequest, Lanes, ReadRequest, Settled,
};
use pillarbox_core::{Result, RouteName};

use crate::store::PostgresStore;

#[async_trait]
impl Lanes for PostgresStore {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        self.attend_lanes(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        self.read_lanes(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        self.fetch_lanes(request).await
    }

    async fn dead(&self, request: DeadRequest) -> Result<Vec<DeadHead>> {
        self.dead_heads(request).await
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
}

/// The lanes of a request as the database has them.
fn numbers(lanes: &[u8]) -> Vec<i16> {
    lanes.iter().copied().map(i16::from).collect()
}
