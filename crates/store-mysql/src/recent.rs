//! What ended and what was accepted lately.

use pillarbox_core::port::{Recent, RecentRequest};
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
}
