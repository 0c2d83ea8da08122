//! What ended and what was accepted lately, and how long deliveries took.

use pillarbox_core::limits::WAITS_MAX;
use pillarbox_core::port::{Recent, RecentRequest, Waits, WaitsRequest};
use pillarbox_core::{Result, Status};

use crate::bind::Bind;
use crate::call::Traffic;
use crate::claim::micros;
use crate::meant::number;
use crate::row::Cells;
use crate::store::MySqlStore;

impl MySqlStore {
    pub(crate) async fn recent_activity(&self, request: RecentRequest) -> Result<Recent> {
        let bind = || Bind::new().at(request.now).number(micros(request.within));
        let s = &self.statements;
        let mut recent = Recent::default();
        // The index has the settled entries of each route in the order of their time.
        for status in [Status::Delivered, Status::Dead, Status::Discarded].map(number) {
            for route in self.routes_in(status).await? {
                let look = s.recent_ended.with(bind().number(status).bytes(route))?;
                let ended = self.rows(Traffic::Operator, &look).await?;
                ended.iter().map(Cells::of).try_for_each(|mut row| recent.end(&mut row))?;
            }
        }
        let accepted = self.rows(Traffic::Operator, &s.recent_accepted.with(bind())?).await?;
        accepted.iter().map(Cells::of).try_for_each(|mut row| recent.accept(&mut row))?;
        Ok(recent)
    }

    pub(crate) async fn delivery_waits(&self, request: WaitsRequest) -> Result<Waits> {
        let bind = Bind::new().at(request.now).number(micros(request.within));
        let bind = bind.number(number(Status::Delivered)).bytes(request.route.as_str());
        let look = self.statements.waits.with(bind.number(WAITS_MAX.into()))?;
        let rows = self.rows(Traffic::Operator, &look).await?;
        let mut waits = Waits::default();
        rows.iter().map(Cells::of).try_for_each(|mut row| waits.count(&mut row))?;
        Ok(waits)
    }
}
