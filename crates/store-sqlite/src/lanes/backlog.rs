//! What waits in each lane, for people.

use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::LaneBacklog;
use pillarbox_core::{Result, RouteName};

use crate::bind::Bind;
use crate::error::classify;
use crate::row::Cells;
use crate::store::SqliteStore;

impl SqliteStore {
    pub(crate) async fn lane_backlogs(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        let bind = Bind::new().text(route.as_str()).number(LANE_WAITING_MAX.into()).done()?;
        let look = self.statements.lanes_backlog.with(bind);
        let rows = look.fetch_all(self.pool()).await.map_err(classify)?;
        rows.iter().map(|row| LaneBacklog::read(&mut Cells::of(row))).collect()
    }
}
