//! What waits in each lane, for people.

use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::LaneBacklog;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::{ErrorKind, Result, RouteName};

use super::mend::is_damage;
use crate::bind::Bind;
use crate::call::Traffic;
use crate::error::Phase;
use crate::row::Cells;
use crate::sql::Sql;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn lane_backlogs(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        let mut unit = self.unit(Traffic::Operator).await?;
        unit.script(&Sql::as_relay()).await?;
        let bind = Bind::new().text(route.as_str()).number(LANE_WAITING_MAX.into()).done()?;
        let rows = unit.rows(&self.sql().lanes_backlog, bind).await?;
        let of_route = Bind::new().text(route.as_str()).done()?;
        let holders = match unit.rows(&self.sql().lanes_holders, of_route).await {
            // Without the table of sessions, or where it is damaged, no relay holds a lane: see `counts`.
            Err(error) if error.kind() == ErrorKind::ReadOnly || is_damage(&error) => vec![],
            holders => {
                let holders = holders?;
                unit.commit(Phase::Before).await?;
                holders
            }
        };
        let lanes = rows.iter().map(|row| LaneBacklog::read(&mut Cells::of(row)));
        let mut lanes = lanes.collect::<Result<Vec<_>>>()?;
        for mut row in holders.iter().map(Cells::of) {
            let (number, owner) = (row.number()?, row.text()?);
            if let Some(lane) = lanes.iter_mut().find(|lane| i64::from(lane.lane) == number) {
                lane.owner = Some(owner);
            }
        }
        Ok(lanes)
    }
}
