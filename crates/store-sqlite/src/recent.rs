//! What ended and what was accepted lately, and how long deliveries took.

use pillarbox_core::Result;
use pillarbox_core::limits::{WAITS_LOOKED_MAX, WAITS_MAX};
use pillarbox_core::port::{Recent, RecentRequest, Waits, WaitsRequest};

use crate::bind::Bind;
use crate::claim::micros;
use crate::error::classify;
use crate::row::Cells;
use crate::store::SqliteStore;

impl SqliteStore {
    pub(crate) async fn recent_activity(&self, request: RecentRequest) -> Result<Recent> {
        let bind = || Bind::new().at(request.now).number(micros(request.within)).done();
        let s = &self.statements;
        let mut recent = Recent::default();
        let ended = s.recent_ended.with(bind()?).fetch_all(self.pool()).await.map_err(classify)?;
        ended.iter().map(Cells::of).try_for_each(|mut row| recent.end(&mut row))?;
        let accepted = s.recent_accepted.with(bind()?).fetch_all(self.pool()).await.map_err(classify)?;
        accepted.iter().map(Cells::of).try_for_each(|mut row| recent.accept(&mut row))?;
        Ok(recent)
    }

    pub(crate) async fn delivery_waits(&self, request: WaitsRequest) -> Result<Waits> {
        let bind = Bind::new().at(request.now).number(micros(request.within)).text(request.route.as_str());
        let bind = bind.number(WAITS_MAX.into()).number(WAITS_LOOKED_MAX.into()).done()?;
        let rows = self.statements.waits.with(bind).fetch_all(self.pool()).await.map_err(classify)?;
        let mut waits = Waits::default();
        rows.iter().map(Cells::of).try_for_each(|mut row| waits.count(&mut row))?;
        Ok(waits)
    }
}
