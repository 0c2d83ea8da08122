//! The store under the conformance suite: each case in a database of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_conformance::{Ruin, SagaHarness, StoreHarness, Tamper};
use pillarbox_core::Timestamp;
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_store_mysql::{Inbox, MySqlStore, Options, Outbox};
use sqlx::mysql::{MySqlPoolOptions, MySqlRow};
use sqlx::{AssertSqlSafe, Connection, MySql, MySqlConnection, Row, Transaction};

/// A migrated store in a database that goes away with it.
pub(crate) struct MySqlHarness {
    store: Arc<MySqlStore>,
    /// The store that the suite sees once the database's clock is ahead.
    ahead: OnceLock<Arc<MySqlStore>>,
    /// By how many seconds it is.
    by: Arc<AtomicU64>,
    pub(crate) options: Options,
    pub(crate) database: Database,
    locks: Mutex<Vec<MySqlConnection>>,
}

/// The URL of a database on the server that tests run on.
pub(crate) fn url(database: &str) -> String {
    let server = std::env::var("PILLARBOX_TEST_MYSQL").unwrap_or_else(|_| {
        panic!(
            "PILLARBOX_TEST_MYSQL is not set: run `cargo xtask services mariadb -- cargo test -p \
             pillarbox-store-mysql`, or set it to a URL of root, as mysql://root@127.0.0.1:3306"
        )
    });
    url_of(&server, database)
}

/// The URL of a database on this server.
pub(crate) fn url_of(server: &str, database: &str) -> String {
    let scheme = server.find("://").map_or(0, |at| at + 3);
    let end = server[scheme..].find('/').map_or(server.len(), |at| scheme + at);
    format!("{}/{database}", &server[..end])
}

/// A name that no other test has.
pub(crate) fn unique(word: &str) -> String {
    format!("{word}_{:016x}", pillarbox_host::random_u64())
}

/// A database that is dropped at the end.
pub(crate) struct Database(pub(crate) String);

impl Database {
    /// Its URL for another account, `NAME` or `NAME:PASSWORD`.
    pub(crate) fn url_as(&self, account: &str) -> String {
        let url = self.url();
        let (_, place) = url.split_once('@').unwrap();
        format!("mysql://{account}@{place}")
    }

    pub(crate) async fn new() -> Self {
        let database = Self(unique("t"));
        let mut connection = MySqlConnection::connect(&url("mysql")).await.unwrap();
        let create = format!("create database {} character set latin1", database.0);
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        database
    }

    pub(crate) fn url(&self) -> String {
        url(&self.0)
    }

    /// A connection of the test's own.
    pub(crate) async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url()).await.unwrap()
    }

    /// Runs SQL behind the port's back, where it may be refused.
    pub(crate) async fn try_execute(&self, text: &str) -> sqlx::Result<()> {
        let mut connection = self.connect().await;
        let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut connection).await;
        connection.close().await.unwrap();
        done.map(|_| ())
    }

    pub(crate) async fn execute(&self, text: &str) {
        self.try_execute(text).await.unwrap();
    }

    /// The rows that a query gives.
    pub(crate) async fn rows(&self, text: &str) -> Vec<MySqlRow> {
        let mut connection = self.connect().await;
        let rows = sqlx::query(AssertSqlSafe(text.to_owned())).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, text: &str) -> i64 {
        self.rows(text).await[0].get_unchecked(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("set session lock_wait_timeout = 5; drop database if exists {}", self.0);
        let done = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = MySqlConnection::connect(&url("mysql")).await?;
                match sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await {
                    // The tables are gone. MariaDB sometimes leaves a copy of a trigger's file behind, and then
                    // cannot remove the directory.
                    Err(error) if error.to_string().contains("1010") => Ok(()),
                    dropped => dropped.map(|_| ()),
                }
            })
        });
        // A test that failed already says why; what it left behind does not matter then.
        if !std::thread::panicking() {
            done.join().unwrap().unwrap();
        }
    }
}

/// Two transactions meet at these rows, for a deadlock.
pub(crate) const MEETING: &str = "create table ruin (id int primary key, n int not null default 0) engine = InnoDB; \
    insert into ruin (id) with recursive n as (select 1 as i union all select i + 1 from n where i < 200) select i from n";

impl MySqlHarness {
    /// A migrated store with these settings.
    pub(crate) async fn with(options: Options) -> Self {
        let harness = Self::unmigrated(options).await;
        let migrated = harness.store.migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (0, 1));
        harness
    }

    /// A store without tables.
    pub(crate) async fn unmigrated(options: Options) -> Self {
        let database = Database::new().await;
        let store = MySqlStore::connect(&database.url(), options.clone()).await.unwrap();
        let (ahead, by, locks) = (OnceLock::new(), Arc::new(AtomicU64::new(0)), Mutex::default());
        Self { store: Arc::new(store), ahead, by, options, database, locks }
    }

    /// Another store on the same tables, as another process would open it.
    pub(crate) async fn another(&self) -> MySqlStore {
        MySqlStore::connect(&self.database.url(), self.options.clone()).await.unwrap()
    }

    /// Moves the clock that the store's statements see: its sessions have a time of their own.
    async fn advance_clock(&self, by: Duration) {
        self.by.fetch_add(by.as_secs(), Ordering::SeqCst);
        if self.ahead.get().is_some() {
            return;
        }
        let (begun, used) = (Arc::clone(&self.by), Arc::clone(&self.by));
        let set = |by: &AtomicU64| {
            let by = by.load(Ordering::SeqCst);
            sqlx::raw_sql(AssertSqlSafe(format!("set timestamp = unix_timestamp(sysdate(6)) + {by}")))
        };
        let pool = MySqlPoolOptions::new()
            .max_connections(4)
            .after_connect(move |connection, _| {
                let set = set(&begun);
                Box::pin(async move { set.execute(connection).await.map(drop) })
            })
            .before_acquire(move |connection, _| {
                let set = set(&used);
                Box::pin(async move { set.execute(connection).await.map(|_| true) })
            })
            .connect(&self.database.url())
            .await
            .unwrap();
        let store = MySqlStore::new(pool, self.options.clone()).unwrap();
        assert!(self.ahead.set(Arc::new(store)).is_ok());
    }
}

#[async_trait]
impl StoreHarness for MySqlHarness {
    type Tx = Transaction<'static, MySql>;
    type Outbox = Outbox;
    type Inbox = Inbox;
    type Store = MySqlStore;

    const NAME: &'static str = "mysql";

    async fn start() -> Self {
        Self::with(Options::default().causal_order(true)).await
    }

    fn store(&self) -> Arc<MySqlStore> {
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
        let clock = "select cast(unix_timestamp(sysdate(6)) * 1000000 as signed)";
        let ahead = Duration::from_secs(self.by.load(Ordering::SeqCst));
        Timestamp::from_micros(self.database.number(clock).await).unwrap().saturating_add(ahead)
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
        match how {
            // A statement that fails is taken back alone, unless the server has to end a deadlock.
            Ruin::FailedStatement => deadlock(tx).await,
            Ruin::Ended => {
                sqlx::raw_sql("rollback").execute(&mut **tx).await.unwrap();
            }
            Ruin::BrokenConnection => {
                let id: i64 = sqlx::query("select connection_id()")
                    .fetch_one(&mut **tx)
                    .await
                    .unwrap()
                    .get_unchecked(0);
                let mut other = MySqlConnection::connect(&url("mysql")).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(format!("kill {id}"))).execute(&mut other).await.unwrap();
                while sqlx::raw_sql("select 1").execute(&mut **tx).await.is_ok() {}
            }
            _ => return false,
        }
        true
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        let on_entry = |text: &str, id: &pillarbox_core::EventId| {
            text.replace("{id}", &format!("event_id = x'{}'", id.0.simple()))
        };
        let database = &self.database;
        match tamper {
            Tamper::FailAudit => {
                let text = "create trigger fail_audit before insert on pillarbox_audit for each row \
                    signal sqlstate '45000' set message_text = 'the audit trail is broken'";
                database.execute(text).await;
            }
            Tamper::RepairAudit => database.execute("drop trigger fail_audit").await,
            Tamper::SpoilHeaders(id) => {
                let text = "update pillarbox_outbox set headers = '{\"number\": 1}' where {id}";
                database.execute(&on_entry(text, &id)).await;
            }
            Tamper::DeleteEntry(id) => {
                database.execute(&on_entry("delete from pillarbox_outbox where {id}", &id)).await;
            }
            Tamper::ForgetLeaseEnd(id) => {
                database
                    .execute(&on_entry("update pillarbox_outbox set due_at = null where {id}", &id))
                    .await;
            }
            Tamper::StagePlain { route, event_type, payload } => {
                let text = "insert into pillarbox_outbox (route, type, payload_bytes) values (?, ?, ?)";
                let insert = sqlx::query(text).bind(route).bind(event_type).bind(payload);
                insert.execute(&mut database.connect().await).await.unwrap();
            }
            Tamper::StageText { route, event_type, payload } => {
                let [route, event_type, payload] =
                    [route, event_type, payload].map(|t| t.replace('\\', "\\\\").replace('\'', "''"));
                let text = format!(
                    "insert into pillarbox_outbox (route, type, payload) \
                     values ('{route}', '{event_type}', '{payload}')"
                );
                database.execute(&text).await;
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                let text =
                    "insert into pillarbox_outbox (route, type, `key`, payload_bytes) values (?, ?, ?, ?)";
                let insert = sqlx::query(text).bind(route).bind(event_type).bind(key).bind(payload);
                insert.execute(&mut database.connect().await).await.unwrap();
            }
            Tamper::StageWrong { id, column, value } => {
                let mut columns =
                    BTreeMap::from([("route", "orders"), ("type", "order.placed"), ("payload", "{}")]);
                columns.insert(column, value);
                let names: Vec<_> = columns.keys().map(|name| format!("`{name}`")).collect();
                let values: Vec<_> = columns.values().map(|value| format!("'{value}'")).collect();
                let text = format!(
                    "insert into pillarbox_outbox (event_id, {}) values (x'{}', {})",
                    names.join(", "),
                    id.0.simple(),
                    values.join(", ")
                );
                return database.try_execute(&text).await.is_ok();
            }
            Tamper::LockEntry(id) => {
                let text = "start transaction; select 1 from pillarbox_outbox where {id} for update";
                let mut connection = database.connect().await;
                let lock = AssertSqlSafe(on_entry(text, &id));
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
                database.execute("alter table pillarbox_outbox drop column last_error").await
            }
            Tamper::AdvanceClock(by) => self.advance_clock(by).await,
            _ => return false,
        }
        true
    }
}

/// Makes the server roll this transaction back: another one is in its way, and has done more.
pub(crate) async fn deadlock(tx: &mut Transaction<'static, MySql>) {
    let database: String =
        sqlx::query("select database()").fetch_one(&mut **tx).await.unwrap().get_unchecked(0);
    let mut other = MySqlConnection::connect(&url(&database)).await.unwrap();
    // Not a transaction of the caller's: a table that is new to it could not be read in it.
    if sqlx::raw_sql("select 1 from ruin limit 1").execute(&mut other).await.is_err() {
        sqlx::raw_sql(MEETING).execute(&mut other).await.unwrap();
    }
    sqlx::raw_sql(
        "set session transaction isolation level read committed; start transaction; \
         update ruin set n = n + 1 where id > 1",
    )
    .execute(&mut other)
    .await
    .unwrap();
    sqlx::raw_sql("update ruin set n = n + 1 where id = 1").execute(&mut **tx).await.unwrap();
    let theirs = sqlx::raw_sql("update ruin set n = n + 1 where id = 1").execute(&mut other);
    let ours = sqlx::raw_sql("update ruin set n = n + 1 where id = 2").execute(&mut **tx);
    let (theirs, ours) = tokio::join!(theirs, ours);
    theirs.unwrap();
    assert!(ours.unwrap_err().to_string().contains("1213"), "the server chose the other one");
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
}

impl SagaHarness for MySqlHarness {
    fn sagas(&self, hooks: SagaHooks<Transaction<'static, MySql>>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
