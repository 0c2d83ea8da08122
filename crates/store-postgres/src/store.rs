//! The store: its settings and its connections.

use std::fmt;
use std::sync::Arc;

use pillarbox_core::Result;
use pillarbox_core::port::{ClaimOrder, Pool};
use sqlx::{Connection, PgPool};

use crate::connect;
use crate::error::{Phase, classify};
use crate::floor::Floors;
use crate::options::{Mode, Options, Traffic};
use crate::sql::{Sql, Staging, Statements};
use crate::tables::Tables;

/// Connections that only claims, reaps and purges use.
const RELAY: u32 = 2;
/// Connections that only extends and settles use: two settles may be under way, and an extend does not wait for them.
const RESERVED: u32 = 3;

/// The outbox on PostgreSQL, for relays and operators. Cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    pools: Pools,
    mode: Mode,
    options: Options,
    sql: Statements,
    staging: Arc<Staging>,
    begin: Sql,
    begin_steered: Sql,
    staged: Floors,
    causal: Floors,
}

/// Connections are opened when they are needed, so an unused pool costs nothing.
struct Pools {
    operator: PgPool,
    relay: PgPool,
    reserved: PgPool,
    /// All three are one pool of the application's.
    shared: bool,
}

// Nothing of the pools: their options print passwords.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("mode", &self.inner.mode).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects with pools of its own. It first detects whether there is a transaction pooler.
    ///
    /// On a connection to another machine, the server's certificate is verified unless the URL's `sslmode`,
    /// or `PGSSLMODE`, says otherwise. Plain text needs [`Options::insecure`].
    ///
    /// # Errors
    /// When the URL or a setting is wrong, or when the server cannot be reached. Missing tables are not an
    /// error here: [`Schema::inspect`](pillarbox_core::port::Schema::inspect) reports them.
    ///
    /// ```no_run
    /// use pillarbox_store_postgres::{Options, PostgresStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> pillarbox_core::Result<()> {
    /// let store = PostgresStore::connect("postgres://app@localhost/shop", Options::default()).await?;
    /// store.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let target = connect::target(url, &options)?;
        let mode = match options.mode {
            Some(mode) => {
                let connection = connect::open(&target, &options).await?;
                connection.close().await.map_err(|error| classify(error, Phase::Before))?;
                mode
            }
            None => connect::probe(&target, &options).await?,
        };
        tracing::debug!(mode = mode.as_str(), "connected to PostgreSQL");
        let open = |line, connections| connect::pool(&target, mode, &options, line, connections);
        let pools = Pools {
            operator: open(Traffic::Operator, options.connections.max(1)),
            relay: open(Traffic::Relay, RELAY),
            reserved: open(Traffic::Reserved, RESERVED),
            shared: false,
        };
        Ok(Self::build(pools, mode, options))
    }

    /// Uses an existing pool for everything.
    ///
    /// Unless [`Options::mode`] says that the connections are direct, every call also works through a
    /// transaction pooler. With [`Mode::Direct`], the pool's own connections decide the timeouts and the
    /// settings of the planner.
    ///
    /// # Errors
    /// None at present. Settings that cannot work will be refused here.
    pub fn new(pool: PgPool, options: Options) -> Result<Self> {
        let mode = options.mode.unwrap_or(Mode::Pooled);
        let pools = Pools { operator: pool.clone(), relay: pool.clone(), reserved: pool, shared: true };
        Ok(Self::build(pools, mode, options))
    }

    fn build(pools: Pools, mode: Mode, mut options: Options) -> Self {
        options.mode = Some(mode);
        let sql = Statements::new(Tables::new(&options));
        let staging = Arc::new(Staging::new(sql.tables.clone()));
        let begin = Sql::begin(&options, Traffic::Operator);
        let begin_steered = Sql::begin(&options, Traffic::Relay);
        let (staged, causal) = (Floors::default(), Floors::default());
        Self {
            inner: Arc::new(Inner {
                pools,
                mode,
                options,
                sql,
                staging,
                begin,
                begin_steered,
                staged,
                causal,
            }),
        }
    }

    /// The connections of all pools.
    pub(crate) fn all_pools(&self) -> Pool {
        let Pools { operator, relay, reserved, shared } = &self.inner.pools;
        let pools: &[&PgPool] = if *shared { &[operator] } else { &[operator, relay, reserved] };
        pools.iter().map(|pool| connect::connections(pool)).fold(Pool::default(), Pool::and)
    }

    /// The pool for operators' calls. [`begin`](Self::begin) begins the application's transactions on it.
    ///
    /// If the store was made by [`connect`](Self::connect), its connections have the store's timeouts. Relays
    /// then do not use this pool: an application that exhausts it does not stop them. If the store was made
    /// by [`new`](Self::new), this is the given pool, and relays use it too.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.pools.operator
    }

    /// The settings, with the mode that is in use. Give them to an outbox that stages through
    /// [`pool`](Self::pool).
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How the store calls the server.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.mode
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        for line in [Traffic::Operator, Traffic::Relay, Traffic::Reserved] {
            self.line(line).close().await;
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.inner.sql.tables
    }

    pub(crate) fn staging(&self) -> &Arc<Staging> {
        &self.inner.staging
    }

    pub(crate) fn sql(&self) -> &Statements {
        &self.inner.sql
    }

    /// Where claims in this order begin.
    pub(crate) fn floors(&self, order: ClaimOrder) -> &Floors {
        match order {
            ClaimOrder::Staged => &self.inner.staged,
            ClaimOrder::Causal => &self.inner.causal,
        }
    }

    pub(crate) fn begin_script(&self, line: Traffic) -> &Sql {
        if line == Traffic::Operator { &self.inner.begin } else { &self.inner.begin_steered }
    }

    pub(crate) fn line(&self, line: Traffic) -> &PgPool {
        match line {
            Traffic::Operator => &self.inner.pools.operator,
            Traffic::Relay => &self.inner.pools.relay,
            Traffic::Reserved => &self.inner.pools.reserved,
        }
    }
}
