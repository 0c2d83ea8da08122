//! Purging: what was settled, accepted, or ended long enough ago goes, in small batches.

use pillarbox_core::Result;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::error::{Phase, classify};
use crate::row::Cells;
use crate::sql::Sql;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_by(request, &self.sql().purge, &self.sql().purgeable).await
    }

    pub(crate) async fn purge_accepted(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_by(request, &self.sql().inbox_purge, &self.sql().inbox_purgeable).await
    }

    pub(crate) async fn purge_ended(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_by(request, &self.sql().saga_purge, &self.sql().saga_purgeable).await
    }

    async fn purge_by(&self, request: PurgeRequest, apply: &Sql, count: &Sql) -> Result<Purged> {
        request.check()?;
        let bind =
            Bind::new().at(request.now).number(micros(request.older_than)).number(request.limit.into());
        let rows = match request.effect {
            Effect::Apply => {
                let arguments = bind.text(&request.actor).done()?;
                self.run(Traffic::Relay, Again::IfUndone, apply, arguments).await?
            }
            Effect::DryRun => self.run(Traffic::Relay, Again::Always, count, bind.done()?).await?,
        };
        let row =
            rows.first().ok_or(sqlx::Error::RowNotFound).map_err(|error| classify(error, Phase::Before))?;
        Ok(Purged { purged: Cells::of(row).count()? })
    }
}
