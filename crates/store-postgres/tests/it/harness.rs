//! The store under the conformance suite: each case in a schema of its own, directly and through PgBouncer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_conformance::{Ruin, SagaHarness, StoreHarness, Tamper};
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_core::{Ident, Timestamp};
use pillarbox_store_postgres::{Inbox, Mode, Options, Outbox, PostgresStore};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Row, Transaction};

use crate::steps::ROUTE;

/// On a server that is talked to directly.
pub(crate) type Direct = PostgresHarness<false>;
/// Through PgBouncer in transaction mode.
pub(crate) type Pooled = PostgresHarness<true>;

/// A migrated store in a schema that goes away with it.
pub(crate) struct PostgresHarness<const POOLED: bool> {
    store: Arc<PostgresStore>,
    /// The store that the suite sees once the database's clock is ahead.
    ahead: OnceLock<Arc<PostgresStore>>,
    pub(crate) options: Options,
    /// The name of the schema.
    pub(crate) schema: String,
    locks: Mutex<Vec<PgConnection>>,
}

/// The URL of the server that tests run on.
pub(crate) fn server() -> String {
    variable("PILLARBOX_TEST_POSTGRES")
}

/// The URL of a PgBouncer in front of it.
pub(crate) fn pooler() -> String {
    variable("PILLARBOX_TEST_PGBOUNCER")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services all -- cargo test -p pillarbox-store-postgres`")
    })
}

/// A connection of the test's own, always direct.
pub(crate) async fn connect() -> PgConnection {
    PgConnection::connect(&server()).await.unwrap()
}

/// A name that no other test has.
pub(crate) fn unique(word: &str) -> String {
    format!("{word}_{:016x}", pillarbox_host::random_u64())
}

impl<const POOLED: bool> PostgresHarness<POOLED> {
    /// Settings for a schema of its own.
    pub(crate) fn fresh() -> Options {
        Options::default().schema(Ident::new(&unique("t")).unwrap()).create_schema(true)
    }

    /// A migrated store with these settings.
    pub(crate) async fn with(options: Options) -> Self {
        let harness = Self::unmigrated(options).await;
        let migrated = harness.store.migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (0, 1));
        harness
    }

    /// A store without tables.
    pub(crate) async fn unmigrated(options: Options) -> Self {
        let schema = options.schema.as_ref().unwrap().to_string();
        let url = if POOLED { pooler() } else { server() };
        let store = PostgresStore::connect(&url, options).await.unwrap();
        assert_eq!(store.mode(), if POOLED { Mode::Pooled } else { Mode::Direct }, "the self-test was wrong");
        let options = store.options().clone();
        Self { store: Arc::new(store), ahead: OnceLock::new(), options, schema, locks: Mutex::default() }
    }

    /// Another store on the same tables, as another process would open it.
    pub(crate) async fn another(&self) -> PostgresStore {
        let url = if POOLED { pooler() } else { server() };
        PostgresStore::connect(&url, self.options.clone()).await.unwrap()
    }

    /// Moves the clock that the store's statements see: a function of its name that is found before the server's own.
    async fn advance_clock(&self, by: Duration) {
        if self.ahead.get().is_none() {
            self.execute(
                "create table {s}.ahead (by interval not null); insert into {s}.ahead values ('0'); \
                 create function {s}.statement_timestamp() returns timestamptz language sql stable as \
                 'select pg_catalog.statement_timestamp() + (select by from {s}.ahead)'",
            )
            .await;
            let url = format!("{}?options[search_path]={},pg_catalog", server(), self.schema);
            let store = PostgresStore::connect(&url, self.options.clone()).await.unwrap();
            assert!(self.ahead.set(Arc::new(store)).is_ok());
        }
        self.execute(&format!("update {{s}}.ahead set by = by + interval '{} seconds'", by.as_secs())).await;
    }

    /// Puts the name of the schema in the place of `{s}`.
    pub(crate) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("{s}", &self.schema))
    }

    /// Runs SQL behind the port's back.
    pub(crate) async fn execute(&self, text: &str) {
        let mut connection = connect().await;
        sqlx::raw_sql(self.sql(text)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// The same where it may be refused.
    pub(crate) async fn try_execute(&self, text: &str) -> sqlx::Result<()> {
        let mut connection = connect().await;
        let done = sqlx::raw_sql(self.sql(text)).execute(&mut connection).await;
        connection.close().await.unwrap();
        done.map(|_| ())
    }

    /// The rows that a query gives.
    pub(crate) async fn rows(&self, text: &str) -> Vec<PgRow> {
        let mut connection = connect().await;
        let rows = sqlx::query(self.sql(text)).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, text: &str) -> i64 {
        self.rows(text).await[0].get(0)
    }
}

impl<const POOLED: bool> Drop for PostgresHarness<POOLED> {
    fn drop(&mut self) {
        self.locks.lock().unwrap().clear();
        at_the_end(self.sql("drop schema if exists {s} cascade"));
    }
}

/// Runs SQL where there may be no runtime, to clean up.
pub(crate) fn at_the_end(sql: AssertSqlSafe<String>) {
    let done = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = connect().await;
            let settings = "set client_min_messages = warning; set lock_timeout = '5s'";
            sqlx::raw_sql(settings).execute(&mut connection).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await
        })
    });
    // A test that failed already says why; what it left behind does not matter then.
    if !std::thread::panicking() {
        done.join().unwrap().unwrap();
    }
}

#[async_trait]
impl<const POOLED: bool> StoreHarness for PostgresHarness<POOLED> {
    type Tx = Transaction<'static, Postgres>;
    type Outbox = Outbox;
    type Inbox = Inbox;
    type Store = PostgresStore;

    const NAME: &'static str = if POOLED { "postgres through pgbouncer" } else { "postgres" };

    async fn start() -> Self {
        Self::with(Self::fresh().causal_order(true)).await
    }

    fn store(&self) -> Arc<PostgresStore> {
        Arc::clone(self.ahead.get().unwrap_or(&self.store))
    }

    fn presence(&self) -> Option<Arc<dyn Presence>> {
        Some(self.store())
    }

    fn outbox(&self, route: &str) -> Outbox {
        Outbox::new(route).options(self.options.clone())
    }

    fn inbox(&self) -> Inbox {
        self.store.inbox()
    }

    async fn now(&self) -> Timestamp {
        let ahead = if self.ahead.get().is_some() { "(select by from {s}.ahead)" } else { "interval '0'" };
        let micros = "select (extract(epoch from clock_timestamp() + {ahead}) * 1000000)::bigint";
        let micros = self.number(&micros.replace("{ahead}", ahead)).await;
        Timestamp::from_micros(micros).unwrap()
    }

    async fn begin(&self) -> Self::Tx {
        self.store.pool().begin().await.unwrap()
    }

    async fn commit(&self, tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }

    async fn savepoint(&self, tx: &mut Self::Tx) {
        sqlx::raw_sql("savepoint suite").execute(&mut **tx).await.unwrap();
    }

    async fn rollback_to_savepoint(&self, tx: &mut Self::Tx) {
        sqlx::raw_sql("rollback to savepoint suite").execute(&mut **tx).await.unwrap();
    }

    async fn ruin(tx: &mut Self::Tx, how: Ruin) -> bool {
        let (statement, fails) = match how {
            Ruin::FailedStatement => ("select 1/0", true),
            Ruin::Ended => ("rollback", false),
            Ruin::BrokenConnection => ("select pg_terminate_backend(pg_backend_pid())", true),
            _ => return false,
        };
        assert_eq!(sqlx::raw_sql(statement).execute(&mut **tx).await.is_err(), fails, "{how:?}");
        true
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        match tamper {
            Tamper::FailAudit => {
                self.execute("alter table {s}.pillarbox_audit add constraint broken check (false) not valid")
                    .await;
            }
            Tamper::RepairAudit => {
                self.execute("alter table {s}.pillarbox_audit drop constraint broken").await
            }
            Tamper::SpoilHeaders(id) => {
                let text =
                    "update {s}.pillarbox_outbox set headers = '{\"number\": 1}' where event_id = '{id}'";
                self.execute(&text.replace("{id}", &id.to_string())).await;
            }
            Tamper::DeleteEntry(id) => {
                let text = "delete from {s}.pillarbox_outbox where event_id = '{id}'";
                self.execute(&text.replace("{id}", &id.to_string())).await;
            }
            Tamper::ForgetLeaseEnd(id) => {
                let text = "update {s}.pillarbox_outbox set due_at = null where event_id = '{id}'";
                self.execute(&text.replace("{id}", &id.to_string())).await;
            }
            Tamper::StagePlain { route, event_type, payload } => {
                let text =
                    "insert into {s}.pillarbox_outbox (route, type, payload_bytes) values ($1, $2, $3)";
                let mut connection = connect().await;
                let insert = sqlx::query(self.sql(text)).bind(route).bind(event_type).bind(payload);
                insert.execute(&mut connection).await.unwrap();
            }
            Tamper::StageText { route, event_type, payload } => {
                let [route, event_type, payload] =
                    [route, event_type, payload].map(|t| t.replace('\'', "''"));
                let text = format!(
                    "insert into {{s}}.pillarbox_outbox (route, type, payload) \
                     values ('{route}', '{event_type}', '{payload}')"
                );
                self.execute(&text).await;
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                let text = "insert into {s}.pillarbox_outbox (route, type, key, payload_bytes) values ($1, $2, $3, $4)";
                let mut connection = connect().await;
                let insert = sqlx::query(self.sql(text)).bind(route).bind(event_type).bind(key).bind(payload);
                insert.execute(&mut connection).await.unwrap();
            }
            Tamper::StageWrong { id, column, value } => {
                let mut columns =
                    BTreeMap::from([("route", ROUTE), ("type", "order.placed"), ("payload", "{}")]);
                columns.insert(column, value);
                let names: Vec<_> = columns.keys().copied().collect();
                let values: Vec<_> = columns.values().map(|value| format!("'{value}'")).collect();
                let text = format!(
                    "insert into {{s}}.pillarbox_outbox (event_id, {}) values ('{id}', {})",
                    names.join(", "),
                    values.join(", ")
                );
                let mut connection = connect().await;
                return sqlx::raw_sql(self.sql(&text)).execute(&mut connection).await.is_ok();
            }
            Tamper::LockEntry(id) => {
                let text = "begin; select 1 from {s}.pillarbox_outbox where event_id = '{id}' for update";
                let mut connection = connect().await;
                let lock = self.sql(&text.replace("{id}", &id.to_string()));
                sqlx::raw_sql(lock).execute(&mut connection).await.unwrap();
                self.locks.lock().unwrap().push(connection);
            }
            Tamper::UnlockEntries => {
                let locks = std::mem::take(&mut *self.locks.lock().unwrap());
                for mut connection in locks {
                    sqlx::raw_sql("rollback").execute(&mut connection).await.unwrap();
                }
            }
            Tamper::DropColumn => {
                self.execute("alter table {s}.pillarbox_outbox drop column last_error").await
            }
            // PgBouncer takes no settings of a session.
            Tamper::AdvanceClock(_) if POOLED => return false,
            Tamper::AdvanceClock(by) => self.advance_clock(by).await,
            _ => return false,
        }
        true
    }
}

impl<const POOLED: bool> SagaHarness for PostgresHarness<POOLED> {
    fn sagas(&self, hooks: SagaHooks<Transaction<'static, Postgres>>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
