//! The composition: which store serves a URL, and the one place that names the stores.

mod apart;
mod notes;
mod staging;

use std::path::PathBuf;
use std::sync::Arc;

use pillarbox_core::port::{Admin, Doctor, Lanes, Presence, SagaAdmin, Schema, SchemaState, Store};
use pillarbox_core::{Error, Ident, redact_refused_url, redact_url};
#[cfg(feature = "mongodb")]
use pillarbox_store_mongodb::{self as mongo, MongoStore};
#[cfg(feature = "mysql")]
use pillarbox_store_mysql::{self as mysql, MySqlStore};
#[cfg(feature = "postgres")]
use pillarbox_store_postgres::{self as postgres, PostgresStore};
use pillarbox_store_sqlite::{self as sqlite, SqliteStore};

use crate::fault::Fault;

use apart::Apart;

pub use notes::Notes;
pub use staging::{AnyInbox, RouteOutbox, Staging, StagingTx};

/// The names of the tables.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// How the names begin. Default: `pillarbox`.
    pub prefix: Option<Ident>,
    /// The schema, PostgreSQL only. Default: the connection's own.
    pub schema: Option<Ident>,
    /// Whether the index for claims by clock stamp is wanted.
    pub causal_order: bool,
    /// Whether plain text to a database on another machine is allowed; not for SQLite, which has no other machine.
    pub insecure: bool,
    /// Connections for the application's own transactions; not for SQLite. Default: the store's.
    pub connections: Option<u32>,
    /// Whether a migration may create the schema, PostgreSQL only.
    pub create_schema: bool,
}

impl DatabaseOptions {
    /// Where the tables are, for people: the database, and on PostgreSQL the schema.
    pub fn place(&self, url: &str) -> String {
        match self.schema_at(url) {
            Some(schema) => format!("{}, schema {schema}", redact_url(url)),
            None => redact_url(url),
        }
    }

    /// The schema of the tables. Only PostgreSQL has one.
    pub fn schema_at(&self, url: &str) -> Option<String> {
        let schema = self.schema.as_ref().map_or("public", Ident::as_str);
        matches!(scheme(url), Ok(Scheme::Postgres)).then(|| schema.to_owned())
    }
}

/// A database as each side of the outbox sees it. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    /// The relay's side.
    pub store: Arc<dyn Store>,
    /// The relay's side, by lanes.
    pub lanes: Arc<dyn Lanes>,
    /// The operator's side.
    pub admin: Arc<dyn Admin>,
    /// The operator's side of sagas.
    pub sagas: Arc<dyn SagaAdmin>,
    /// Where running relays are seen.
    pub presence: Arc<dyn Presence>,
    /// The tables.
    pub schema: Arc<dyn Schema>,
    /// What can be examined.
    pub doctor: Arc<dyn Doctor>,
    /// The application's side.
    pub staging: Staging,
}

/// Connects to a database by its URL.
pub async fn connect(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    match scheme(url)? {
        Scheme::Sqlite => connect_sqlite(url, options).await,
        #[cfg(feature = "postgres")]
        Scheme::Postgres => connect_postgres(url, options).await,
        #[cfg(not(feature = "postgres"))]
        Scheme::Postgres => Err(left_out("postgres")),
        #[cfg(feature = "mysql")]
        Scheme::MySql => connect_mysql(url, options).await,
        #[cfg(not(feature = "mysql"))]
        Scheme::MySql => Err(left_out("mysql")),
        #[cfg(feature = "mongodb")]
        Scheme::Mongo => connect_mongo(url, options).await,
        #[cfg(not(feature = "mongodb"))]
        Scheme::Mongo => Err(left_out("mongodb")),
    }
}

#[cfg(not(all(feature = "mongodb", feature = "mysql", feature = "postgres")))]
fn left_out(feature: &str) -> Fault {
    Fault::usage(format!(
        "{feature}: was left out of this build. Build pillarbox with its default features, or with --features {feature}"
    ))
}

fn refuse_schema(options: &DatabaseOptions, database: &str) -> Result<(), Fault> {
    match options.schema {
        Some(_) => Err(Fault::usage(format!(
            "database.schema works on PostgreSQL only. On {database}, use database.prefix instead"
        ))),
        None => Ok(()),
    }
}

async fn connect_sqlite(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    refuse_schema(&options, "SQLite")?;
    let mut store_options = sqlite::Options::default();
    store_options.causal_order = options.causal_order;
    store_options.prefix = options.prefix.unwrap_or(store_options.prefix);
    let store = SqliteStore::connect(url, store_options.clone()).await.map_err(|error| at(url, error))?;
    Ok(Database {
        store: Arc::new(Apart(store.clone())),
        lanes: Arc::new(Apart(store.clone())),
        admin: Arc::new(store.clone()),
        sagas: Arc::new(store.clone()),
        presence: Arc::new(store.clone()),
        schema: Arc::new(store.clone()),
        doctor: Arc::new(store.clone()),
        staging: Staging::Sqlite(store, store_options),
    })
}

#[cfg(feature = "postgres")]
async fn connect_postgres(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    let mut store_options = postgres::Options::default();
    store_options.causal_order = options.causal_order;
    store_options.schema = options.schema;
    store_options.prefix = options.prefix.unwrap_or(store_options.prefix);
    store_options.insecure = options.insecure;
    store_options.connections = options.connections.unwrap_or(store_options.connections);
    store_options.create_schema = options.create_schema;
    let store = PostgresStore::connect(url, store_options).await.map_err(|error| at(url, error))?;
    // With what the self-test found: an outbox must know of a transaction pooler too.
    let store_options = store.options().clone();
    Ok(Database {
        store: Arc::new(Apart(store.clone())),
        lanes: Arc::new(Apart(store.clone())),
        admin: Arc::new(store.clone()),
        sagas: Arc::new(store.clone()),
        presence: Arc::new(store.clone()),
        schema: Arc::new(store.clone()),
        doctor: Arc::new(store.clone()),
        staging: Staging::Postgres(store, store_options),
    })
}

#[cfg(feature = "mysql")]
async fn connect_mysql(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    refuse_schema(&options, "MySQL and MariaDB")?;
    let mut store_options = mysql::Options::default();
    store_options.causal_order = options.causal_order;
    store_options.prefix = options.prefix.unwrap_or(store_options.prefix);
    store_options.insecure = options.insecure;
    store_options.connections = options.connections.unwrap_or(store_options.connections);
    let store = MySqlStore::connect(url, store_options).await.map_err(|error| at(url, error))?;
    let store_options = store.options().clone();
    Ok(Database {
        store: Arc::new(Apart(store.clone())),
        lanes: Arc::new(Apart(store.clone())),
        admin: Arc::new(store.clone()),
        sagas: Arc::new(store.clone()),
        presence: Arc::new(store.clone()),
        schema: Arc::new(store.clone()),
        doctor: Arc::new(store.clone()),
        staging: Staging::MySql(store, store_options),
    })
}

#[cfg(feature = "mongodb")]
async fn connect_mongo(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    refuse_schema(&options, "MongoDB")?;
    let mut store_options = mongo::Options::default();
    store_options.causal_order = options.causal_order;
    store_options.prefix = options.prefix.unwrap_or(store_options.prefix);
    store_options.insecure = options.insecure;
    store_options.connections = options.connections.unwrap_or(store_options.connections);
    let store = MongoStore::connect(url, store_options).await.map_err(|error| at(url, error))?;
    let store_options = store.options().clone();
    Ok(Database {
        store: Arc::new(Apart(store.clone())),
        lanes: Arc::new(Apart(store.clone())),
        admin: Arc::new(store.clone()),
        sagas: Arc::new(store.clone()),
        presence: Arc::new(store.clone()),
        schema: Arc::new(store.clone()),
        doctor: Arc::new(store.clone()),
        staging: Staging::Mongo(store, store_options),
    })
}

/// Which database a URL means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Sqlite,
    Postgres,
    MySql,
    Mongo,
}

/// What a user may write.
const KNOWN: &str = "Use sqlite://FILE, postgres://USER@HOST/NAME, mysql://USER@HOST/NAME, mariadb://USER@HOST/NAME or \
    mongodb://HOST/NAME?replicaSet=SET";

fn scheme(url: &str) -> Result<Scheme, Fault> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Scheme::Sqlite),
        Some("postgres" | "postgresql") => Ok(Scheme::Postgres),
        Some("mysql" | "mariadb") => Ok(Scheme::MySql),
        Some("mongodb" | "mongodb+srv") => Ok(Scheme::Mongo),
        _ => {
            Err(Fault::usage(format!("{:?} is not the URL of a database. {KNOWN}", redact_refused_url(url))))
        }
    }
}

// Which database it was, and what to look at.
fn at(url: &str, error: Error) -> Fault {
    let fault = match Fault::from(error) {
        fault @ Fault::Unavailable(_) if sqlite_file(url).is_some() => {
            fault.and("check that its directory exists and that you may write to it")
        }
        fault @ Fault::Unavailable(_) => {
            fault.and("check that the server is running and that the URL is right")
        }
        fault => fault,
    };
    match fault {
        // It may be the URL itself that is wrong.
        fault @ Fault::Usage(_) => fault.context(&redact_refused_url(url)),
        fault => fault.context(&redact_url(url)),
    }
}

/// Whether this is a SQLite file that is not there yet.
pub fn is_missing_file(url: &str) -> bool {
    sqlite_file(url).is_some_and(|file| !file.exists())
}

/// Refuses a SQLite file that is not there, instead of leaving an empty one behind.
pub fn refuse_missing_file(url: &str) -> Result<(), Fault> {
    match SchemaState::Missing.check() {
        Err(error) if is_missing_file(url) => {
            Err(Fault::from(error).context(&format!("{} does not exist yet", redact_url(url))))
        }
        _ => Ok(()),
    }
}

fn sqlite_file(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    let in_memory = path == ":memory:" || parameters.split('&').any(|pair| pair == "mode=memory");
    (!in_memory && !path.is_empty()).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_database_says_what_is_known() {
        for (url, named) in [
            ("cassandra://h/x", "mongodb://HOST/NAME"),
            ("maria://h/x", "mariadb://USER@HOST/NAME"),
            ("oracle:x", "is not the URL of a database"),
            ("", "sqlite://"),
        ] {
            let fault = scheme(url).unwrap_err();
            assert_eq!(fault.exit_code(), 2);
            assert!(fault.message().unwrap().contains(named), "{fault:?}");
        }
        let fault = scheme("postgress://app:hunter2@h/x").unwrap_err();
        assert!(!fault.message().unwrap().contains("hunter2"), "{fault:?}");
    }

    #[test]
    fn the_file_of_a_sqlite_url_is_found() {
        for (url, file) in [
            ("sqlite://a.db", Some("a.db")),
            ("sqlite:a.db?mode=rwc", Some("a.db")),
            ("sqlite:///var/a.db", Some("/var/a.db")),
            ("sqlite::memory:", None),
            ("sqlite://x?mode=memory", None),
            ("postgres://h/x", None),
        ] {
            assert_eq!(sqlite_file(url), file.map(PathBuf::from), "{url}");
        }
    }
}
