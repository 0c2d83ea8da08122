//! SQLite: a file in a directory that goes away.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::port::Filter;
use pillarbox::sink::HandlerError;
use pillarbox::sqlite::{Inbox, Options, Outbox, SqliteStore};
use pillarbox::{Admin, Entry, Event};
use pillarbox_conformance::{InboxHarness, Ruin};
use sqlx::Transaction;
use tempfile::TempDir;

pub(crate) struct Sqlite {
    store: SqliteStore,
    _directory: TempDir,
}

#[async_trait]
impl InboxHarness for Sqlite {
    type Inbox = Inbox;

    const NAME: &'static str = "sqlite";

    async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let url = format!("sqlite://{}", directory.path().join("billing.db").display());
        let store = SqliteStore::connect(&url, Options::default()).await.unwrap();
        store.migrate().await.unwrap();
        let own = "create table own (id integer primary key); insert into own values (1)";
        sqlx::raw_sql(own).execute(store.pool()).await.unwrap();
        Self { store, _directory: directory }
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.store.inbox())
    }

    async fn apply(
        &self,
        tx: &mut Transaction<'static, sqlx::Sqlite>,
        event: Event,
    ) -> Result<(), HandlerError> {
        let _ = Outbox::new("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.store.list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, sqlx::Sqlite>) -> Result<(), HandlerError> {
        let violated = sqlx::query("insert into own values (1)").execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, sqlx::Sqlite>, how: Ruin) -> bool {
        let (statement, fails) = match how {
            Ruin::FailedStatement => ("insert or rollback into own values (1)", true),
            Ruin::Ended => ("rollback", false),
            _ => return false,
        };
        assert_eq!(sqlx::raw_sql(statement).execute(&mut **tx).await.is_err(), fails, "{how:?}");
        true
    }

    fn concurrent_writers(&self) -> bool {
        false
    }
}
