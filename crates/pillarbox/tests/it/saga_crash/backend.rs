//! The two databases, as a child and its parent use them.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::port::{SagaHooks, Sagas};
use pillarbox::{Error, ErrorKind, Ident, Result, Saga, SagaAdmin, Store};
use sqlx::{AssertSqlSafe, Row, Transaction};

use crate::variable;

/// Effects of handlers, by key; what the sink was told; which sagas have ended. None of them refuses a second row.
const TABLES: &str = "create table {t}effects (key varchar(80)); create table {t}told (saga varchar(80)); \
    create table {t}ended (saga varchar(80))";

pub(super) const ROUTE: &str = "sagas";

#[async_trait]
pub(super) trait Backend: Send + Sync + Sized + 'static {
    type Tx: Send + 'static;
    type Store: Store + SagaAdmin + 'static;

    /// How its children are called.
    const CHILD: &'static str;

    /// Opens what `create` made.
    async fn open(at: &str) -> Self;

    /// Makes the tables, the application's too.
    async fn create(&self);

    fn store(&self) -> Arc<Self::Store>;

    fn sagas(&self, hooks: SagaHooks<Self::Tx>) -> Arc<dyn Sagas>;

    /// Stages in a transaction of its own.
    async fn stage(&self, saga: Saga);

    /// One row with this value, committed.
    async fn insert(&self, table: &str, value: &str) -> Result<()>;

    /// The same in a transaction that is under way.
    async fn insert_in(&self, tx: &mut Self::Tx, table: &str, value: &str) -> Result<()>;

    /// How often each value is there.
    async fn count(&self, table: &str) -> Vec<(String, i64)>;
}

pub(super) struct Sqlite(Arc<pillarbox::sqlite::SqliteStore>);

pub(super) struct Postgres(Arc<pillarbox::postgres::PostgresStore>);

impl Sqlite {
    async fn connect(at: &str) -> Self {
        let options = pillarbox::sqlite::Options::default();
        Self(Arc::new(pillarbox::sqlite::SqliteStore::connect(at, options).await.unwrap()))
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn outbox(&self) -> pillarbox::sqlite::Outbox {
        pillarbox::sqlite::Outbox::new(ROUTE)
    }
}

impl Postgres {
    async fn connect(at: &str) -> Self {
        let options =
            pillarbox::postgres::Options::default().schema(Ident::new(at).unwrap()).create_schema(true);
        let server = variable("PILLARBOX_TEST_POSTGRES");
        Self(Arc::new(pillarbox::postgres::PostgresStore::connect(&server, options).await.unwrap()))
    }

    fn prefix(&self) -> String {
        format!("{}.", self.0.options().schema.as_ref().unwrap())
    }

    fn outbox(&self) -> pillarbox::postgres::Outbox {
        pillarbox::postgres::Outbox::new(ROUTE).options(self.0.options().clone())
    }
}

fn failed(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the application's own write failed").with_source(error)
}

macro_rules! place {
    ($name:ident, $store:ty, $child:literal) => {
        impl $name {
            fn sql(&self, text: &str) -> AssertSqlSafe<String> {
                AssertSqlSafe(text.replace("{t}", &self.prefix()))
            }
        }

        #[async_trait]
        impl Backend for $name {
            type Tx = Transaction<'static, sqlx::$name>;
            type Store = $store;

            const CHILD: &'static str = $child;

            async fn open(at: &str) -> Self {
                Self::connect(at).await
            }

            async fn create(&self) {
                self.0.migrate().await.unwrap();
                sqlx::raw_sql(self.sql(TABLES)).execute(self.0.pool()).await.unwrap();
            }

            fn store(&self) -> Arc<$store> {
                Arc::clone(&self.0)
            }

            fn sagas(&self, hooks: SagaHooks<Self::Tx>) -> Arc<dyn Sagas> {
                Arc::new(self.0.sagas().hooks(hooks))
            }

            async fn stage(&self, saga: Saga) {
                let mut tx = self.0.pool().begin().await.unwrap();
                let _ = self.outbox().stage_saga(&mut tx, saga).await.unwrap();
                tx.commit().await.unwrap();
            }

            async fn insert(&self, table: &str, value: &str) -> Result<()> {
                let sql = self.sql(&format!("insert into {{t}}{table} values ($1)"));
                sqlx::query(sql).bind(value).execute(self.0.pool()).await.map_err(failed)?;
                Ok(())
            }

            async fn insert_in(&self, tx: &mut Self::Tx, table: &str, value: &str) -> Result<()> {
                let sql = self.sql(&format!("insert into {{t}}{table} values ($1)"));
                sqlx::query(sql).bind(value).execute(&mut **tx).await.map_err(failed)?;
                Ok(())
            }

            async fn count(&self, table: &str) -> Vec<(String, i64)> {
                let sql = self.sql(&format!("select *, count(*) from {{t}}{table} group by 1"));
                let rows = sqlx::query(sql).fetch_all(self.0.pool()).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    };
}

place!(Sqlite, pillarbox::sqlite::SqliteStore, "saga_crash::child::child_on_sqlite");
place!(Postgres, pillarbox::postgres::PostgresStore, "saga_crash::child::child_on_postgres");
