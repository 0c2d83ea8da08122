//! PostgreSQL: a schema that goes away.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::port::Filter;
use pillarbox::postgres::{Inbox, Mode, Options, Outbox, PostgresStore};
use pillarbox::sink::HandlerError;
use pillarbox::{Admin, Entry, Event, Ident};
use pillarbox_conformance::{InboxHarness, Ruin};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Transaction};

use crate::{unique, variable};

pub(crate) struct Postgres {
    store: PostgresStore,
    schema: String,
}

fn server() -> String {
    variable("PILLARBOX_TEST_POSTGRES")
}

impl Postgres {
    /// Puts the name of the schema in the place of `{s}`.
    fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("{s}", &self.schema))
    }
}

#[async_trait]
impl InboxHarness for Postgres {
    type Inbox = Inbox;

    const NAME: &'static str = "postgres";

    async fn start() -> Self {
        let schema = unique();
        let options = Options::default()
            .schema(Ident::new(&schema).unwrap())
            .create_schema(true)
            .mode(Mode::Direct)
            .connections(8);
        let store = PostgresStore::connect(&server(), options).await.unwrap();
        store.migrate().await.unwrap();
        let started = Self { store, schema };
        let own = "create table {s}.own (id integer primary key); insert into {s}.own values (1)";
        sqlx::raw_sql(started.sql(own)).execute(started.store.pool()).await.unwrap();
        started
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.store.inbox())
    }

    async fn apply(
        &self,
        tx: &mut Transaction<'static, sqlx::Postgres>,
        event: Event,
    ) -> Result<(), HandlerError> {
        let outbox = Outbox::new("effects").options(self.store.options().clone());
        let _ = outbox.stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.store.list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, sqlx::Postgres>) -> Result<(), HandlerError> {
        let insert = sqlx::raw_sql(self.sql("insert into {s}.own values (1)"));
        let violated = insert.execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, sqlx::Postgres>, how: Ruin) -> bool {
        let (statement, fails) = match how {
            Ruin::FailedStatement => ("select 1/0", true),
            Ruin::Ended => ("rollback", false),
            Ruin::BrokenConnection => ("select pg_terminate_backend(pg_backend_pid())", true),
            _ => return false,
        };
        assert_eq!(sqlx::raw_sql(statement).execute(&mut **tx).await.is_err(), fails, "{how:?}");
        true
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let sql =
            self.sql("set lock_timeout = '5s'; set client_min_messages = warning; drop schema {s} cascade");
        // In a thread of its own, because this one belongs to a runtime. What a failed test leaves behind is of no
        // interest.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server()).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await
            })
        });
        let _ = dropping.join();
    }
}
