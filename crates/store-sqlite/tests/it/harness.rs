//! The store under the conformance suite: each case on a file of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{Ruin, SagaHarness, StoreHarness, Tamper};
use pillarbox_core::Timestamp;
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_store_sqlite::{Inbox, Options, Outbox, SqliteStore};
use sqlx::{Row, Sqlite, Transaction};
use tempfile::TempDir;

/// A migrated store in a directory that goes away with it.
pub(crate) struct SqliteHarness {
    store: Arc<SqliteStore>,
    options: Options,
    /// The file's directory; removed at the end.
    pub(crate) directory: TempDir,
}

/// The URL of a file in that directory.
pub(crate) fn url(directory: &TempDir) -> String {
    format!("sqlite://{}", directory.path().join("pillarbox.db").display())
}

impl SqliteHarness {
    /// A migrated store with these settings.
    pub(crate) async fn with(options: Options) -> Self {
        let directory = TempDir::new().unwrap();
        let store = SqliteStore::connect(&url(&directory), options.clone()).await.unwrap();
        let migrated = store.migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (0, 1));
        Self { store: Arc::new(store), options, directory }
    }

    /// Runs SQL behind the port's back.
    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(self.store.pool()).await.unwrap();
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query(sql).fetch_one(self.store.pool()).await.unwrap().get_unchecked(0)
    }

    /// Another store on the same file, as another process would open it.
    pub(crate) async fn another(&self) -> SqliteStore {
        SqliteStore::connect(&url(&self.directory), self.options.clone()).await.unwrap()
    }
}

#[async_trait]
impl StoreHarness for SqliteHarness {
    type Tx = Transaction<'static, Sqlite>;
    type Outbox = Outbox;
    type Inbox = Inbox;
    type Store = SqliteStore;

    const NAME: &'static str = "sqlite";

    async fn start() -> Self {
        Self::with(Options::default().causal_order(true)).await
    }

    fn store(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
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
        let micros = self.number("select cast(unixepoch('subsec') * 1000 as integer) * 1000").await;
        Timestamp::from_micros(micros).unwrap()
    }

    async fn begin(&self) -> Self::Tx {
        // Not in line: an application with a pool of its own.
        self.store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap()
    }

    async fn commit(&self, tx: Self::Tx) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Self::Tx) {
        tx.rollback().await.unwrap();
    }

    async fn savepoint(&self, tx: &mut Self::Tx) {
        sqlx::query("savepoint suite").execute(&mut **tx).await.unwrap();
    }

    async fn rollback_to_savepoint(&self, tx: &mut Self::Tx) {
        sqlx::query("rollback to savepoint suite").execute(&mut **tx).await.unwrap();
    }

    fn concurrent_writers(&self) -> bool {
        false
    }

    async fn ruin(tx: &mut Self::Tx, how: Ruin) -> bool {
        let (script, fails) = match how {
            // A statement that fails is taken back alone, unless it says otherwise or the disk is full.
            Ruin::FailedStatement => (
                "create temp table ruined (id integer primary key); insert into ruined values (1); \
                 insert or rollback into ruined values (1)",
                true,
            ),
            Ruin::Ended => ("rollback", false),
            // There is none to a server.
            _ => return false,
        };
        assert_eq!(sqlx::raw_sql(script).execute(&mut **tx).await.is_err(), fails, "{how:?}");
        true
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        let pool = self.store.pool();
        match tamper {
            Tamper::FailAudit => {
                self.execute(
                    "create trigger fail_audit before insert on pillarbox_audit \
                     begin select raise(abort, 'the audit trail is broken'); end",
                )
                .await;
            }
            Tamper::RepairAudit => self.execute("drop trigger fail_audit").await,
            Tamper::SpoilHeaders(id) => {
                let mut connection = pool.acquire().await.unwrap();
                sqlx::query("pragma ignore_check_constraints = on").execute(&mut *connection).await.unwrap();
                sqlx::query("update pillarbox_outbox set headers = '{\"cut' where event_id = ?1")
                    .bind(id.to_string())
                    .execute(&mut *connection)
                    .await
                    .unwrap();
                connection.close().await.unwrap();
            }
            Tamper::DeleteEntry(id) => {
                let delete =
                    sqlx::query("delete from pillarbox_outbox where event_id = ?1").bind(id.to_string());
                delete.execute(pool).await.unwrap();
            }
            Tamper::ForgetLeaseEnd(id) => {
                let forget = sqlx::query("update pillarbox_outbox set due_at = null where event_id = ?1")
                    .bind(id.to_string());
                forget.execute(pool).await.unwrap();
            }
            Tamper::StagePlain { route, event_type, payload } => {
                sqlx::query("insert into pillarbox_outbox (route, type, payload_bytes) values (?1, ?2, ?3)")
                    .bind(route)
                    .bind(event_type)
                    .bind(payload)
                    .execute(pool)
                    .await
                    .unwrap();
            }
            Tamper::StageText { route, event_type, payload } => {
                let [route, event_type, payload] =
                    [route, event_type, payload].map(|t| t.replace('\'', "''"));
                let text = format!(
                    "insert into pillarbox_outbox (route, type, payload) \
                     values ('{route}', '{event_type}', '{payload}')"
                );
                sqlx::query(sqlx::AssertSqlSafe(text)).execute(pool).await.unwrap();
            }
            Tamper::StageWrong { id, column, value } => {
                let mut columns =
                    BTreeMap::from([("route", "orders"), ("type", "order.placed"), ("payload", "{}")]);
                columns.insert(column, value);
                let names: Vec<_> = columns.keys().copied().collect();
                let values: Vec<_> = columns.values().map(|value| format!("'{value}'")).collect();
                let text = format!(
                    "insert into pillarbox_outbox (event_id, {}) values ('{id}', {})",
                    names.join(", "),
                    values.join(", ")
                );
                return sqlx::query(sqlx::AssertSqlSafe(text)).execute(pool).await.is_ok();
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                let text =
                    "insert into pillarbox_outbox (route, type, key, payload_bytes) values (?1, ?2, ?3, ?4)";
                let insert = sqlx::query(text).bind(route).bind(event_type).bind(key).bind(payload);
                insert.execute(pool).await.unwrap();
            }
            Tamper::DropColumn => {
                // An index has the column, and SQLite would refuse.
                self.execute("drop index pillarbox_outbox_failed").await;
                self.execute("alter table pillarbox_outbox drop column last_error").await;
            }
            // SQLite locks the file, not rows.
            _ => return false,
        }
        true
    }
}

impl SagaHarness for SqliteHarness {
    fn sagas(&self, hooks: SagaHooks<Transaction<'static, Sqlite>>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
