//! Entries claimed one by one, in no order that would be promised.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Store,
};
use pillarbox_core::{Held, Result, RouteName};

use super::{Conclusion, Feed, Nature, Recorded, Recording};

/// The store as it is.
pub(crate) struct Rows(pub(crate) Arc<dyn Store>);

#[async_trait]
impl Feed for Rows {
    fn nature(&self) -> Nature {
        Nature::ROWS
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.0.claim(request).await
    }

    async fn settle(&self, recording: Recording) -> Result<Recorded> {
        let Recording { owner, conclusions, keep } = recording;
        let settlements = conclusions.into_iter().map(Conclusion::settlement).collect();
        Ok(self.0.settle(SettleRequest { owner, settlements, keep, now: None }).await?.into())
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.0.extend(request).await
    }

    async fn reap(&self, request: ReapRequest, _at_work: Vec<Held>) -> Result<Reaped> {
        self.0.reap(request).await
    }

    async fn sagas_left_alone(&self, route: &RouteName) -> Result<u64> {
        self.0.open_sagas(route).await
    }
}
