//! The application's side of every database: transactions of its own driver, behind one face.

use std::sync::Arc;

use pillarbox_core::port::{AcceptRequest, Accepted, Sagas, StagedSaga};
use pillarbox_core::{Error, ErrorKind, Event, Result, RouteName, Saga, Staged};
#[cfg(feature = "mongodb")]
use pillarbox_store_mongodb::{self as mongo, MongoStore};
#[cfg(feature = "mysql")]
use pillarbox_store_mysql::{self as mysql, MySqlStore};
#[cfg(feature = "postgres")]
use pillarbox_store_postgres::{self as postgres, PostgresStore};
use pillarbox_store_sqlite::{self as sqlite, SqliteStore};
use sqlx::{Sqlite, Transaction};

use crate::telemetry;

/// The same expression for every database of this build.
macro_rules! each {
    ($value:expr, $of:ident($($name:pat),+) => $body:expr) => {
        match $value {
            $of::Sqlite($($name),+) => $body,
            #[cfg(feature = "postgres")]
            $of::Postgres($($name),+) => $body,
            #[cfg(feature = "mysql")]
            $of::MySql($($name),+) => $body,
            #[cfg(feature = "mongodb")]
            $of::Mongo($($name),+) => $body,
        }
    };
}

/// The same expression for every database of this build that knows SQL.
macro_rules! each_sql {
    ($value:expr, $of:ident($($name:pat),+) => $body:expr) => {
        match $value {
            $of::Sqlite($($name),+) => $body.map_err(driver),
            #[cfg(feature = "postgres")]
            $of::Postgres($($name),+) => $body.map_err(driver),
            #[cfg(feature = "mysql")]
            $of::MySql($($name),+) => $body.map_err(driver),
            #[cfg(feature = "mongodb")]
            $of::Mongo(..) => Err(no_sql()),
        }
    };
}

/// The same method for a transaction and what belongs to it, of every database of this build.
macro_rules! pair {
    ($tx:expr, $of:ident($value:expr) => |$a:ident, $b:ident| $body:expr) => {
        match ($tx, $value) {
            (StagingTx::Sqlite($a), $of::Sqlite($b)) => $body,
            #[cfg(feature = "postgres")]
            (StagingTx::Postgres($a), $of::Postgres($b)) => $body,
            #[cfg(feature = "mysql")]
            (StagingTx::MySql($a), $of::MySql($b)) => $body,
            #[cfg(feature = "mongodb")]
            (StagingTx::Mongo($a, _), $of::Mongo($b)) => $body,
            #[cfg(any(feature = "mongodb", feature = "mysql", feature = "postgres"))]
            _ => Err(mixed()),
        }
    };
}

/// Which driver stages.
#[derive(Clone)]
pub enum Staging {
    /// On SQLite.
    Sqlite(SqliteStore, sqlite::Options),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore, postgres::Options),
    /// On MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(MySqlStore, mysql::Options),
    /// On MongoDB.
    #[cfg(feature = "mongodb")]
    Mongo(MongoStore, mongo::Options),
}

/// The staging side of one route.
pub enum RouteOutbox {
    /// On SQLite.
    Sqlite(sqlite::Outbox),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Outbox),
    /// On MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(mysql::Outbox),
    /// On MongoDB.
    #[cfg(feature = "mongodb")]
    Mongo(mongo::Outbox),
}

/// The inbox of every database.
pub enum AnyInbox {
    /// On SQLite.
    Sqlite(sqlite::Inbox),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Inbox),
    /// On MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(mysql::Inbox),
    /// On MongoDB.
    #[cfg(feature = "mongodb")]
    Mongo(mongo::Inbox),
}

/// A transaction of one of the drivers. Dropped, it is rolled back.
pub enum StagingTx {
    /// On SQLite.
    Sqlite(Transaction<'static, Sqlite>),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Transaction<'static, sqlx::Postgres>),
    /// On MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(Transaction<'static, sqlx::MySql>),
    /// On MongoDB, and the database of the collections.
    #[cfg(feature = "mongodb")]
    Mongo(Box<mongodb::ClientSession>, mongodb::Database),
}

impl Staging {
    /// Begins a transaction.
    pub async fn begin(&self) -> Result<StagingTx> {
        match self {
            Self::Sqlite(store, _) => store.begin().await.map(StagingTx::Sqlite),
            #[cfg(feature = "postgres")]
            Self::Postgres(store, _) => store.pool().begin().await.map(StagingTx::Postgres).map_err(driver),
            #[cfg(feature = "mysql")]
            Self::MySql(store, _) => store.pool().begin().await.map(StagingTx::MySql).map_err(driver),
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => {
                store.begin().await.map(|tx| StagingTx::Mongo(Box::new(tx), store.database()))
            }
        }
    }

    /// Begins a transaction that does not ask for a write lock.
    pub async fn begin_reading(&self) -> Result<StagingTx> {
        match self {
            Self::Sqlite(store, _) => store.pool().begin().await.map(StagingTx::Sqlite).map_err(driver),
            #[cfg(any(feature = "mongodb", feature = "mysql", feature = "postgres"))]
            _ => self.begin().await,
        }
    }

    /// The outbox of a route.
    pub fn outbox(&self, route: &RouteName) -> RouteOutbox {
        let outbox = self.untraced(route);
        let Some(tracer) = telemetry::tracer() else { return outbox };
        match outbox {
            RouteOutbox::Sqlite(outbox) => RouteOutbox::Sqlite(outbox.tracer(tracer)),
            #[cfg(feature = "postgres")]
            RouteOutbox::Postgres(outbox) => RouteOutbox::Postgres(outbox.tracer(tracer)),
            #[cfg(feature = "mysql")]
            RouteOutbox::MySql(outbox) => RouteOutbox::MySql(outbox.tracer(tracer)),
            #[cfg(feature = "mongodb")]
            RouteOutbox::Mongo(outbox) => RouteOutbox::Mongo(outbox.tracer(tracer)),
        }
    }

    fn untraced(&self, route: &RouteName) -> RouteOutbox {
        match self {
            Self::Sqlite(_, options) => {
                RouteOutbox::Sqlite(sqlite::Outbox::new(route.as_str()).options(options.clone()))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_, options) => {
                RouteOutbox::Postgres(postgres::Outbox::new(route.as_str()).options(options.clone()))
            }
            #[cfg(feature = "mysql")]
            Self::MySql(_, options) => {
                RouteOutbox::MySql(mysql::Outbox::new(route.as_str()).options(options.clone()))
            }
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => RouteOutbox::Mongo(store.outbox(route.as_str())),
        }
    }

    /// The inbox.
    pub fn inbox(&self) -> AnyInbox {
        match self {
            Self::Sqlite(store, _) => AnyInbox::Sqlite(store.inbox()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store, _) => AnyInbox::Postgres(store.inbox()),
            #[cfg(feature = "mysql")]
            Self::MySql(store, _) => AnyInbox::MySql(store.inbox()),
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => AnyInbox::Mongo(store.inbox()),
        }
    }

    /// The sagas, as a relay settles them.
    pub fn sagas(&self) -> Arc<dyn Sagas> {
        each!(self, Self(store, _) => Arc::new(store.sagas()))
    }

    /// The names of the tables, as the lines of `[database]` that name them.
    pub fn names(&self) -> String {
        match self {
            Self::Sqlite(_, options) => format!("prefix = \"{}\"", options.prefix.as_str()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_, options) => {
                let schema =
                    options.schema.as_ref().map(|schema| format!("\nschema = \"{}\"", schema.as_str()));
                format!("prefix = \"{}\"{}", options.prefix.as_str(), schema.unwrap_or_default())
            }
            #[cfg(feature = "mysql")]
            Self::MySql(_, options) => format!("prefix = \"{}\"", options.prefix.as_str()),
            #[cfg(feature = "mongodb")]
            Self::Mongo(_, options) => format!("prefix = \"{}\"", options.prefix.as_str()),
        }
    }

    /// Which database it is, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(..) => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres(..) => "postgres",
            #[cfg(feature = "mysql")]
            Self::MySql(..) => "mysql",
            #[cfg(feature = "mongodb")]
            Self::Mongo(..) => "mongodb",
        }
    }

    /// How this database is reached, for people.
    pub fn mode(&self) -> String {
        match self {
            Self::Sqlite(..) => "embedded".to_owned(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store, _) => store.mode().as_str().to_owned(),
            #[cfg(feature = "mysql")]
            Self::MySql(..) => "direct".to_owned(),
            #[cfg(feature = "mongodb")]
            Self::Mongo(..) => "direct".to_owned(),
        }
    }

    /// Runs a statement of the command's own, outside any transaction.
    pub async fn execute(&self, sql: &'static str) -> Result<()> {
        each_sql!(self, Self(store, _) => sqlx::raw_sql(sql).execute(store.pool()).await.map(|_| ()))
    }

    /// The texts of a query with one column and one parameter.
    pub async fn texts(&self, sql: &'static str, value: &str) -> Result<Vec<String>> {
        each_sql!(self, Self(store, _) => sqlx::query_scalar(sql).bind(value).fetch_all(store.pool()).await)
    }

    /// Runs a statement of the command's own with a payload and two numbers.
    pub async fn load(&self, sql: &'static str, payload: &[u8], numbers: [u32; 2]) -> Result<()> {
        let [second, third] = numbers.map(i64::from);
        each_sql!(self, Self(store, _) => {
            let query = sqlx::query(sql).bind(payload).bind(second).bind(third);
            query.execute(store.pool()).await.map(|_| ())
        })
    }

    /// Closes the connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(store, _) => store.pool().close().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store, _) => store.close().await,
            #[cfg(feature = "mysql")]
            Self::MySql(store, _) => store.close().await,
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => store.close().await,
        }
    }
}

impl StagingTx {
    /// Stages events in one statement.
    pub async fn stage_all(&mut self, outbox: &RouteOutbox, events: Vec<Event>) -> Result<Vec<Staged>> {
        pair!(self, RouteOutbox(outbox) => |tx, outbox| outbox.stage_all(tx, events).await)
    }

    /// Stages a saga with the entries of the steps that may run now.
    pub async fn stage_saga(&mut self, outbox: &RouteOutbox, saga: Saga) -> Result<StagedSaga> {
        pair!(self, RouteOutbox(outbox) => |tx, outbox| outbox.stage_saga(tx, saga).await)
    }

    /// Marks an event as seen by a consumer.
    pub async fn accept(&mut self, inbox: &AnyInbox, request: AcceptRequest) -> Result<Accepted> {
        pair!(self, AnyInbox(inbox) => |tx, inbox| inbox.accept(tx, request).await)
    }

    /// Runs a statement of the command's own, with texts for its parameters.
    pub async fn execute(&mut self, sql: &'static str, values: &[&str]) -> Result<()> {
        each_sql!(self, Self(tx) => {
            let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind((*value).to_owned()));
            query.execute(&mut **tx).await.map(|_| ())
        })
    }

    /// Makes it durable.
    pub async fn commit(self) -> Result<()> {
        // Any outbox can commit: what it adds is the classification of a lost answer.
        match self {
            Self::Sqlite(tx) => sqlite::Outbox::new("-").commit(tx).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => postgres::Outbox::new("-").commit(tx).await,
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => mysql::Outbox::new("-").commit(tx).await,
            #[cfg(feature = "mongodb")]
            Self::Mongo(tx, _) => mongo::Outbox::new("-").commit(*tx).await,
        }
    }

    /// Takes it back.
    pub async fn rollback(self) -> Result<()> {
        match self {
            Self::Sqlite(tx) => tx.rollback().await.map_err(driver),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.rollback().await.map_err(driver),
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => tx.rollback().await.map_err(driver),
            #[cfg(feature = "mongodb")]
            Self::Mongo(mut tx, _) => {
                tx.abort_transaction().await.map_err(|error| super::notes::refused(&error))
            }
        }
    }
}

#[cfg(feature = "mongodb")]
fn no_sql() -> Error {
    Error::new(ErrorKind::Unsupported, "this measurement is written in SQL, which MongoDB does not know")
}

#[cfg(any(feature = "mongodb", feature = "mysql", feature = "postgres"))]
fn mixed() -> Error {
    Error::new(ErrorKind::Internal, "the transaction and the outbox belong to different databases")
}

// What begins, ends and queries of our own can meet: no values of anybody are in these texts.
pub(super) fn driver(error: sqlx::Error) -> Error {
    let kind = match &error {
        sqlx::Error::PoolTimedOut => ErrorKind::Timeout,
        sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => ErrorKind::Unavailable,
        sqlx::Error::Database(error) if error.message().contains("locked") => ErrorKind::Contention,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("the database rejected the statement: {error}"))
}
