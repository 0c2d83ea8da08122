//! The other side: applying an event once.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{self, AcceptRequest, Accepted};
use sqlx::{Sqlite, Transaction};

use crate::error::classify;
use crate::options::Options;
use crate::sql::{Statements, query};

/// Marks events as seen in the transaction of the handler's own write. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    statements: Arc<Statements>,
}

impl Inbox {
    /// The inbox that these settings name.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { statements: Arc::new(Statements::new(&options)) }
    }

    /// Marks the event for this consumer. On [`Accepted::Duplicate`] the handler must not run.
    ///
    /// SQLite has one writer at a time: a concurrent duplicate waits for this transaction's end, at most for
    /// the busy timeout of its connection.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule, before anything is written; or what the database reports.
    pub async fn accept(&self, tx: &mut Transaction<'_, Sqlite>, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        let marked = query(&self.statements.accept)
            .bind(request.consumer)
            .bind(request.event_id.to_string())
            .bind(request.now.map(|now| now.as_micros()))
            .execute(&mut **tx)
            .await
            .map_err(classify)?;
        Ok(if marked.rows_affected() == 0 { Accepted::Duplicate } else { Accepted::Fresh })
    }
}

#[async_trait]
impl<'c> port::Inbox<Transaction<'c, Sqlite>> for Inbox {
    async fn accept(&self, tx: &mut Transaction<'c, Sqlite>, request: AcceptRequest) -> Result<Accepted> {
        Inbox::accept(self, tx, request).await
    }
}
