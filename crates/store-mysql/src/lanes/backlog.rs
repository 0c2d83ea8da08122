//! What waits in each lane, for people.

use pillarbox_core::late::OpenAsk;
use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::LaneBacklog;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Result, RouteName};

use super::read::one_by_one;
use crate::bind::Bind;
use crate::call::Traffic;
use crate::row::Cells;
use crate::store::MySqlStore;

impl MySqlStore {
    pub(crate) async fn lane_backlogs(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        let look = self.statements.lanes_holders.with(Bind::new().bytes(route.as_str()))?;
        let rows = self.rows(Traffic::Operator, &look).await?;
        let lanes = rows.iter().map(|row| LaneBacklog::read(&mut Cells::of(row)));
        let mut lanes = lanes.collect::<Result<Vec<_>>>()?;
        if lanes.is_empty() {
            return Ok(lanes);
        }
        let ask = |lane: &LaneBacklog| OpenAsk { lane: lane.lane, limit: LANE_WAITING_MAX };
        let asks: Vec<OpenAsk> = lanes.iter().map(ask).collect();
        let look = one_by_one(&self.statements.lanes_waiting, route, &asks)?;
        for row in &self.rows(Traffic::Operator, &look).await? {
            let mut row = Cells::of(row);
            let (number, entries) = (row.optional_number()?, row.count()?);
            if let Some(lane) = lanes.iter_mut().find(|lane| Some(i64::from(lane.lane)) == number) {
                lane.waiting = entries;
            }
        }
        Ok(lanes)
    }
}
