//! What ended and what was accepted lately, and how long deliveries took.

use pillarbox_core::Result;
use pillarbox_core::limits::{WAITS_LOOKED_MAX, WAITS_MAX};
use pillarbox_core::port::{Recent, RecentRequest, Waits, WaitsRequest};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::error::Phase;
use crate::row::Cells;
use crate::sql::Sql;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn recent_activity(&self, request: RecentRequest) -> Result<Recent> {
        let bind = || Bind::new().at(request.now).number(micros(request.within)).done();
        let s = self.sql();
        let mut recent = Recent::default();
        let ended = self.run(Traffic::Operator, Again::Always, &s.recent_ended, bind()?).await?;
        ended.iter().map(Cells::of).try_for_each(|mut row| recent.end(&mut row))?;
        let accepted = self.run(Traffic::Operator, Again::Always, &s.recent_accepted, bind()?).await?;
        accepted.iter().map(Cells::of).try_for_each(|mut row| recent.accept(&mut row))?;
        Ok(recent)
    }

    pub(crate) async fn delivery_waits(&self, request: WaitsRequest) -> Result<Waits> {
        let bind = Bind::new().at(request.now).number(micros(request.within)).text(request.route.as_str());
        let bind = bind.number(WAITS_MAX.into()).number(WAITS_LOOKED_MAX.into()).done()?;
        let mut unit = self.unit(Traffic::Operator).await?;
        unit.script(&Sql::as_relay()).await?;
        let rows = unit.rows(&self.sql().waits, bind).await?;
        unit.commit(Phase::Before).await?;
        let mut waits = Waits::default();
        rows.iter().map(Cells::of).try_for_each(|mut row| waits.count(&mut row))?;
        Ok(waits)
    }
}
