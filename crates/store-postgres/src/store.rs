//! The store: its settings and its connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, ExtendRequest, Extended, Purging, ReapRequest, Reaped, SettleRequest,
    Settled, Store,
};
use pillarbox_core::{Result, RouteName};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool};

use crate::call::Line;
use crate::connect;
use crate::error::{Phase, classify};
use crate::floor::Floors;
use crate::inbox::Inbox;
use crate::options::{Mode, Options};
use crate::sql::{Sql, Statements};
use crate::tables::Tables;

/// Connections that only claims, reaps and purges use.
const RELAY: u32 = 2;
/// Connections that only extends and settles use: two settles may be under way, and an extend does not wait for them.
const RESERVED: u32 = 3;
/// A connection that lay idle for longer is tested before it is used again.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// The outbox on PostgreSQL as relays and operators use it. Cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    pools: Pools,
    mode: Mode,
    options: Options,
    tables: Tables,
    sql: Statements,
    begin: Sql,
    begin_steered: Sql,
    staged: Floors,
    causal: Floors,
}

/// Connections are opened when they are needed, so a pool that nobody uses costs nothing.
struct Pools {
    operator: PgPool,
    relay: PgPool,
    reserved: PgPool,
}

// Nothing of the pools: their options print passwords.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("mode", &self.inner.mode).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects with pools of its own, after looking for a transaction pooler.
    ///
    /// Encryption: to another machine the certificate is verified unless the URL's `sslmode` says
    /// otherwise, and plain text needs [`Options::insecure`].
    ///
    /// # Errors
    /// For a bad URL or setting, or a server that cannot be reached. Missing tables are not an error here:
    /// [`Schema::inspect`](pillarbox_core::port::Schema::inspect) tells.
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
        let open = |line, connections| open_pool(&target, mode, &options, line, connections);
        let pools = Pools {
            operator: open(Line::Operator, options.connections.max(1)),
            relay: open(Line::Relay, RELAY),
            reserved: open(Line::Reserved, RESERVED),
        };
        Ok(Self::build(pools, mode, options))
    }

    /// Takes a pool that is there already, for everything.
    ///
    /// Unless [`Options::mode`] says that its connections are direct ones, every call is careful and works
    /// through a transaction pooler too. With [`Mode::Direct`], timeouts and settings of the planner are what
    /// the pool's own connections have set.
    ///
    /// # Errors
    /// None at present; settings that cannot work will be refused here.
    pub fn new(pool: PgPool, options: Options) -> Result<Self> {
        let mode = options.mode.unwrap_or(Mode::Pooled);
        let pools = Pools { operator: pool.clone(), relay: pool.clone(), reserved: pool };
        Ok(Self::build(pools, mode, options))
    }

    fn build(pools: Pools, mode: Mode, mut options: Options) -> Self {
        options.mode = Some(mode);
        let tables = Tables::new(&options);
        let sql = Statements::new(&tables);
        let begin = Sql::begin(&options, Line::Operator);
        let begin_steered = Sql::begin(&options, Line::Relay);
        let (staged, causal) = (Floors::default(), Floors::default());
        Self {
            inner: Arc::new(Inner {
                pools,
                mode,
                options,
                tables,
                sql,
                begin,
                begin_steered,
                staged,
                causal,
            }),
        }
    }

    /// The pool of operators' calls; an application may begin its transactions here. Its connections have
    /// the store's timeouts. Relays do not use it: an application that exhausts it does not stop them.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.pools.operator
    }

    /// The inbox in the same database: what a consumer needs. It shares [`pool`](Self::pool), so
    /// [`Options::connections`] bounds how many messages are handled at once.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.pool().clone(), self.options())
    }

    /// The settings, with the mode that is in use: give them to an outbox that stages through
    /// [`pool`](Self::pool).
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How calls are made.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.mode
    }

    /// Closes all connections; calls fail from then on.
    pub async fn close(&self) {
        for line in [Line::Operator, Line::Relay, Line::Reserved] {
            self.line(line).close().await;
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.inner.tables
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

    pub(crate) fn begin_script(&self, line: Line) -> &Sql {
        if line == Line::Operator { &self.inner.begin } else { &self.inner.begin_steered }
    }

    pub(crate) fn line(&self, line: Line) -> &PgPool {
        match line {
            Line::Operator => &self.inner.pools.operator,
            Line::Relay => &self.inner.pools.relay,
            Line::Reserved => &self.inner.pools.reserved,
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.claim_entries(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.extend_leases(request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        self.settle_batch(request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.reap_leases(request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}

fn open_pool(
    target: &PgConnectOptions,
    mode: Mode,
    options: &Options,
    line: Line,
    connections: u32,
) -> PgPool {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(options.acquire_timeout)
        // Testing every time would double the round trips of a busy relay.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
    match mode {
        Mode::Direct => {
            let settings = Sql::session(options, line);
            pool.after_connect(move |connection, _| {
                let settings = settings.clone();
                Box::pin(async move { settings.script().execute(connection).await.map(|_| ()) })
            })
            .connect_lazy_with(target.clone())
        }
        Mode::Pooled => pool.connect_lazy_with(target.clone().statement_cache_capacity(0)),
    }
}
