//! What the examples of all brokers share: an order, a database file, and Ctrl-C. Nothing here is about a broker.

use pillarbox::sqlite::{Options, SqliteStore};
use serde::{Deserialize, Serialize};

/// What the shop sells, and what the events are about.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) total: u32,
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The command line: which service, its database file, and where the events go to or come from.
pub(crate) struct Arguments {
    pub(crate) service: String,
    pub(crate) database: String,
    pub(crate) url: Option<String>,
}

impl Arguments {
    pub(crate) fn read() -> Self {
        let mut arguments = std::env::args().skip(1);
        let service = arguments.next().unwrap_or_default();
        let database = arguments.next().unwrap_or_else(|| format!("{service}.db"));
        Self { service, database, url: arguments.next() }
    }
}

/// Opens a file and makes the tables: those of Pillarbox, and one of the service's own.
pub(crate) async fn open(database: &str, table: &'static str) -> Result<SqliteStore, Failure> {
    let store = SqliteStore::connect(&format!("sqlite://{database}"), Options::default()).await?;
    store.migrate().await?;
    sqlx::query(table).execute(store.pool()).await?;
    Ok(store)
}

/// Resolves at the first Ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
