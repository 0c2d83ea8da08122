//! The store: its settings and its connections.

use std::fmt;
use std::sync::Arc;

use pillarbox_core::Result;
use pillarbox_core::port::Pool;
use sqlx::{Connection, MySqlPool};
use tokio::sync::OnceCell;

use crate::bind::Bind;
use crate::connect::{self, Server};
use crate::error::{Phase, classify};
use crate::options::{Options, Traffic};
use crate::sql::{Sql, Statements};
use crate::tables::Tables;

/// Connections that relays read with, those that only claims, reaps and purges use, and those for sagas.
const RELAY: u32 = 2;
/// Connections that only extends and settles use: two settles may be under way, and an extend does not wait for them.
const RESERVED: u32 = 3;

/// The outbox on MariaDB or MySQL, for relays and operators. Cheap to clone.
#[derive(Clone)]
pub struct MySqlStore {
    inner: Arc<Inner>,
    pub(crate) statements: Arc<Statements>,
}

struct Inner {
    pools: Pools,
    options: Options,
    clustered: OnceCell<bool>,
}

/// A row on a node of a Galera cluster. MySQL knows no such variable.
const CLUSTERED: &str = "show variables where variable_name = 'wsrep_on' and value = 'ON'";

/// Connections are opened when they are needed, so an unused pool costs nothing.
enum Pools {
    /// Ours, one for each kind of calls, in the order of [`Traffic`].
    Own([MySqlPool; 5]),
    /// The application's, for everything.
    Shared(MySqlPool),
}

impl MySqlStore {
    /// Connects with pools of its own: `mysql://user:password@host/database`, or `mariadb://…`.
    ///
    /// On a connection to another machine, the server's certificate is verified unless the URL's `ssl-mode` says
    /// otherwise. Plain text needs [`Options::insecure`]. Every connection is set to READ COMMITTED and to a strict SQL
    /// mode, also for the application's transactions on [`pool`](Self::pool).
    ///
    /// # Errors
    /// When the URL or a setting is wrong, when the server cannot be reached, or when it is older than MariaDB 10.6 or
    /// MySQL 8.4. Missing tables are not an error here:
    /// [`Schema::inspect`](pillarbox_core::port::Schema::inspect) reports them.
    ///
    /// ```no_run
    /// use pillarbox_store_mysql::{MySqlStore, Options};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> pillarbox_core::Result<()> {
    /// let store = MySqlStore::connect("mysql://app@localhost/shop", Options::default()).await?;
    /// store.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let target = connect::target(url, &options)?;
        let mut connection = connect::open(&target, &options).await?;
        let server = Server::ask(&mut connection).await?;
        connection.close().await.map_err(|error| classify(error, Phase::Before))?;
        tracing::debug!(?server, "connected");
        let pools = Traffic::ALL.map(|line| {
            let connections = match line {
                Traffic::Operator => options.connections.max(1),
                Traffic::Reading | Traffic::Relay | Traffic::Sagas => RELAY,
                Traffic::Reserved => RESERVED,
            };
            connect::pool(&target, server, &options, line, connections)
        });
        Ok(Self::build(Pools::Own(pools), options))
    }

    /// Uses an existing pool for everything. Each of the store's own transactions is then begun in READ COMMITTED.
    ///
    /// # Errors
    /// None at present. Settings that cannot work will be refused here.
    pub fn new(pool: MySqlPool, options: Options) -> Result<Self> {
        Ok(Self::build(Pools::Shared(pool), options))
    }

    fn build(pools: Pools, options: Options) -> Self {
        let statements = Arc::new(Statements::new(Tables::new(&options)));
        let inner = Inner { pools, options, clustered: OnceCell::new() };
        Self { inner: Arc::new(inner), statements }
    }

    /// The connections of all pools.
    pub(crate) fn all_pools(&self) -> Pool {
        match &self.inner.pools {
            Pools::Own(pools) => pools.iter().map(connect::connections).fold(Pool::default(), Pool::and),
            Pools::Shared(pool) => connect::connections(pool),
        }
    }

    /// The pool for operators' calls. [`begin`](Self::begin) begins the application's transactions on it.
    ///
    /// If the store was made by [`connect`](Self::connect), relays do not use this pool: an application that exhausts it
    /// does not stop them. If the store was made by [`new`](Self::new), this is the given pool, and relays use it too.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        self.line(Traffic::Operator)
    }

    /// The settings. Give them to an outbox or inbox of the same tables.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        for line in Traffic::ALL {
            self.line(line).close().await;
        }
    }

    pub(crate) fn line(&self, line: Traffic) -> &MySqlPool {
        match (&self.inner.pools, line) {
            (Pools::Shared(pool), _) => pool,
            (Pools::Own([operator, ..]), Traffic::Operator) => operator,
            (Pools::Own([_, reading, ..]), Traffic::Reading) => reading,
            (Pools::Own([_, _, relay, ..]), Traffic::Relay) => relay,
            (Pools::Own([.., reserved, _]), Traffic::Reserved) => reserved,
            (Pools::Own([.., sagas]), Traffic::Sagas) => sagas,
        }
    }

    /// Whether the server is a node of a Galera cluster, whose locks are not known to the other nodes. It is asked once.
    pub(crate) async fn is_clustered(&self) -> Result<bool> {
        let ask = || async {
            let look = Sql::new(CLUSTERED, &self.statements.tables).with(Bind::new())?;
            Ok(!self.rows(Traffic::Reading, &look).await?.is_empty())
        };
        self.inner.clustered.get_or_try_init(ask).await.copied()
    }

    /// Whether the connections are set as this crate needs them.
    pub(crate) fn owns_connections(&self) -> bool {
        matches!(self.inner.pools, Pools::Own(_))
    }
}

// Nothing of the pools: their options print passwords.
impl fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlStore").field("prefix", &self.statements.tables.prefix).finish_non_exhaustive()
    }
}
