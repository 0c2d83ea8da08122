//! The store: its settings and its connections.

use std::fmt;
use std::sync::Arc;

use mongodb::{Client, Database};
use pillarbox_core::{Error, Result};

use crate::abandoned::{LastLook, app_name};
use crate::connect;
use crate::options::{Options, Traffic};
use crate::tables::Tables;

/// The outbox on MongoDB, for relays and operators. Cheap to clone.
#[derive(Clone)]
pub struct MongoStore {
    inner: Arc<Inner>,
    pub(crate) tables: Arc<Tables>,
}

struct Inner {
    /// For operators and the application's transactions.
    client: Client,
    /// For relays: nobody else can use up its connections.
    relay: Client,
    database: String,
    options: Options,
    last_look: LastLook,
}

impl MongoStore {
    /// Connects with clients of its own: `mongodb://user:password@host/database?replicaSet=rs0`, or `mongodb+srv://…`.
    ///
    /// On a connection to another machine, TLS is on and the server's certificate is verified, unless the URL says
    /// otherwise. Plain text needs [`Options::insecure`].
    ///
    /// # Errors
    /// When the URL or a setting is wrong, when the server cannot be reached, when it is not a member of a replica set, or
    /// when it is older than MongoDB 7.0. Missing collections are not an error here:
    /// [`Schema::inspect`](pillarbox_core::port::Schema::inspect) reports them.
    ///
    /// ```no_run
    /// use pillarbox_store_mongodb::{MongoStore, Options};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> pillarbox_core::Result<()> {
    /// let store = MongoStore::connect("mongodb://localhost/shop?replicaSet=rs0", Options::default()).await?;
    /// store.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let target = connect::target(url, &options).await?;
        let database = options.database.clone().or_else(|| target.default_database.clone());
        let Some(database) = database.filter(|name| !name.is_empty()) else {
            return Err(Error::invalid(
                "the URL names no database; write mongodb://host/database?replicaSet=NAME",
            ));
        };
        let own = target.app_name.as_deref();
        let relay_name = app_name(own, &database, options.prefix.as_str());
        let name = own.unwrap_or("pillarbox").to_owned();
        let client = connect::client(&target, &options, options.connections.max(1), name)?;
        connect::check(&client, &database, options.connect_timeout).await?;
        let relay = connect::client(&target, &options, connect::RELAY, relay_name)?;
        Ok(Self::build(client, relay, database, options))
    }

    /// Uses an existing client for everything. Its database is the one of [`Options::database`], or else the one that the
    /// client's URL names.
    ///
    /// # Errors
    /// When neither names a database.
    pub fn new(client: Client, options: Options) -> Result<Self> {
        let database = connect::database(&client, &options)?.name().to_owned();
        Ok(Self::build(client.clone(), client, database, options))
    }

    fn build(client: Client, relay: Client, database: String, options: Options) -> Self {
        let tables = Arc::new(Tables::new(&options));
        let last_look = LastLook::default();
        Self { inner: Arc::new(Inner { client, relay, database, options, last_look }), tables }
    }

    /// The client for operators' calls. [`begin`](Self::begin) begins the application's transactions on it.
    ///
    /// If the store was made by [`connect`](Self::connect), relays do not use this client: an application that exhausts
    /// its connections does not stop them. If the store was made by [`new`](Self::new), this is the given client, and
    /// relays use it too.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The database of the collections, for the application's own commands in a transaction of [`begin`](Self::begin).
    #[must_use]
    pub fn database(&self) -> Database {
        self.inner.client.database(&self.inner.database)
    }

    /// The settings. Give them to an outbox or inbox of the same collections.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The settings with the name of the database in them.
    pub(crate) fn named_options(&self) -> Options {
        self.inner.options.clone().database(&self.inner.database)
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        self.inner.client.clone().shutdown().immediate(true).await;
        self.inner.relay.clone().shutdown().immediate(true).await;
    }

    pub(crate) fn last_look(&self) -> &LastLook {
        &self.inner.last_look
    }

    pub(crate) fn client_for(&self, traffic: Traffic) -> &Client {
        match traffic {
            Traffic::Operator => &self.inner.client,
            Traffic::Relay => &self.inner.relay,
        }
    }

    pub(crate) fn database_for(&self, traffic: Traffic) -> Database {
        self.client_for(traffic).database(&self.inner.database)
    }
}

// Nothing of the clients: their options have passwords.
impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore").field("prefix", &self.tables.prefix).finish_non_exhaustive()
    }
}
