//! The other side: applying an event once, in the handler's own transaction.

use std::fmt;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{self, AcceptRequest, Accepted};
use sqlx::{Postgres, Transaction};

use crate::bind::Bind;
use crate::error::{Phase, classify};
use crate::options::{Mode, Options};
use crate::sql::{ACCEPT, Sql};
use crate::tables::Tables;

/// Marks events as seen, inside the application's own transaction. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    sql: Sql,
    mode: Mode,
}

impl Inbox {
    /// The inbox of these tables.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { sql: Sql::new(ACCEPT, &Tables::new(&options)), mode: options.mode.unwrap_or(Mode::Direct) }
    }

    /// Marks the event for this consumer. On [`Accepted::Duplicate`] the handler must not run.
    ///
    /// # Errors
    /// For a consumer name out of bounds, or when the database fails; the transaction should then be
    /// rolled back.
    pub async fn accept(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        request: AcceptRequest,
    ) -> Result<Accepted> {
        request.check()?;
        let arguments =
            Bind::new().text(&request.consumer).value(request.event_id.0).at(request.now).done()?;
        let query = self.sql.with(arguments).persistent(self.mode == Mode::Direct);
        let done = query.execute(&mut **tx).await.map_err(|error| classify(error, Phase::Application))?;
        Ok(if done.rows_affected() == 0 { Accepted::Duplicate } else { Accepted::Fresh })
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

#[async_trait]
impl<'c> port::Inbox<Transaction<'c, Postgres>> for Inbox {
    async fn accept(&self, tx: &mut Transaction<'c, Postgres>, request: AcceptRequest) -> Result<Accepted> {
        Self::accept(self, tx, request).await
    }
}
