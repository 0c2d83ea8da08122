//! What ended and what was accepted lately.

use pillarbox_core::Result;
use pillarbox_core::port::{Recent, RecentRequest};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::row::Cells;
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
}
