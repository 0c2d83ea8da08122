//! Lanes: a session leases them, reads them in order and settles; nothing is written per entry before that.

mod attend;
mod bury;
mod cursor;
mod hand_over;
mod read;
mod settle;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest, ReapRequest, Reaped,
    SessionId, Settled,
};
use pillarbox_core::{Error, Fence, Result, RouteName, Timestamp};
use sqlx::{Row, SqliteConnection};

use crate::claim::seqs_json;
use crate::error::classify;
use crate::sql::{Statements, query, timestamp};
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

/// A session as it is at one moment.
struct Holding {
    /// The highest seq that it has read; `None`: it was taken for dead.
    handed: Option<i64>,
    /// Fence and revision of each lane that it holds.
    lanes: BTreeMap<u8, (Fence, i64)>,
    now: Timestamp,
}

impl Holding {
    async fn look(
        statements: &Statements,
        route: &RouteName,
        session: SessionId,
        connection: &mut SqliteConnection,
    ) -> Result<Self> {
        let rows = query(&statements.lanes_held)
            .bind(route.to_string())
            .bind(session.to_string())
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        let mut holding = Self { handed: None, lanes: BTreeMap::new(), now: Timestamp::MIN };
        for row in rows {
            holding.now = timestamp(row.try_get_unchecked(0).map_err(classify)?)?;
            holding.handed = row.try_get_unchecked(1).map_err(classify)?;
            let lane: Option<i64> = row.try_get_unchecked(2).map_err(classify)?;
            if let Some(lane) = lane.and_then(|lane| u8::try_from(lane).ok()) {
                let fence = Fence(row.try_get_unchecked(3).map_err(classify)?);
                holding.lanes.insert(lane, (fence, row.try_get_unchecked(4).map_err(classify)?));
            }
        }
        Ok(holding)
    }
}

/// Numbers of lanes as the JSON parameter that statements read: `[lane, …]`.
fn lanes_json(lanes: &[u8]) -> Result<String> {
    serde_json::to_string(lanes).map_err(|_| Error::invalid("a lane cannot be written as JSON"))
}
