//! Purging: what was settled long enough ago goes, in small batches.

use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Error, Result, check_name};
use sqlx::Row;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::claim::micros;
use crate::error::{Phase, classify};
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        check_name("actor", &request.actor)?;
        if request.limit > BATCH_MAX {
            return Err(Error::invalid(format!(
                "a purge of {}; at most {BATCH_MAX} entries are purged at once",
                request.limit
            )));
        }
        let bind =
            Bind::new().at(request.now).number(micros(request.older_than)).number(request.limit.into());
        let rows = match request.effect {
            Effect::Apply => {
                let arguments = bind.text(&request.actor).done()?;
                self.run(Line::Relay, Again::IfUndone, &self.sql().purge, arguments).await?
            }
            Effect::DryRun => {
                self.run(Line::Relay, Again::Always, &self.sql().purgeable, bind.done()?).await?
            }
        };
        let purged: i64 = rows
            .first()
            .ok_or(sqlx::Error::RowNotFound)
            .and_then(|row| row.try_get(0))
            .map_err(|error| classify(error, Phase::Before))?;
        Ok(Purged { purged: u64::try_from(purged).unwrap_or(0) })
    }
}
