//! Where the tables are and how to talk to their server.

use std::time::Duration;

use pillarbox_core::Ident;

/// Settings of an outbox, a store or an inbox on PostgreSQL. All three must name the same tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// What the names of the tables begin with. Default: `pillarbox`.
    pub prefix: Ident,
    /// The schema of the tables; nothing ever depends on the `search_path`. Default: `None`, which is `public`.
    pub schema: Option<Ident>,
    /// Whether `migrate` may create the schema if it does not exist. Default: `false`, because it may be a misspelt one.
    pub create_schema: bool,
    /// Whether routes claim in causal order: `migrate` then makes the index for it. Default: `false`.
    pub causal_order: bool,
    /// How calls are made. Default: `None`. [`PostgresStore::connect`](crate::PostgresStore::connect) then
    /// looks for a transaction pooler, a store on a given pool is careful, and an outbox takes the
    /// application's connections for direct ones.
    pub mode: Option<Mode>,
    /// Whether a server that is not on this machine may be talked to without verified encryption; only then
    /// `sslmode` may be `prefer`, `allow` or `disable`. Default: `false`.
    pub insecure: bool,
    /// How long opening one connection may take. Default: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a call waits for a free connection. Default: 10 seconds.
    pub acquire_timeout: Duration,
    /// How long one call of a relay may run on the server. Default: 30 seconds.
    pub statement_timeout: Duration,
    /// How long one call waits for somebody else's lock. Default: 5 seconds.
    pub lock_timeout: Duration,
    /// Connections for operators and the application's transactions. Claims have two of their own, extends
    /// and settles have three, so that nobody can starve them. All are opened when needed. Default: 4.
    pub connections: u32,
}

/// How the store talks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One connection is one session: prepared statements are kept, and a call is one round trip.
    Direct,
    /// Behind a transaction pooler such as PgBouncer: every call is a transaction of its own that leaves
    /// nothing behind in the session. Works everywhere, and costs a few round trips more.
    Pooled,
}

/// Which connections a call uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Operators, and the application's own transactions.
    Operator,
    /// Claims, reaps and purges.
    Relay,
    /// Extends and settles: never behind the others.
    Reserved,
}

impl Mode {
    /// The name in status and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Pooled => "pooled",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: Ident::default(),
            schema: None,
            create_schema: false,
            causal_order: false,
            mode: None,
            insecure: false,
            connect_timeout: Duration::from_secs(10),
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            connections: 4,
        }
    }
}

impl Options {
    /// Sets whether `migrate` may create the schema.
    #[must_use]
    pub fn create_schema(mut self, create: bool) -> Self {
        self.create_schema = create;
        self
    }

    /// Sets what the names of the tables begin with.
    #[must_use]
    pub fn prefix(mut self, prefix: Ident) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets the schema of the tables.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets whether routes claim in causal order.
    #[must_use]
    pub fn causal_order(mut self, on: bool) -> Self {
        self.causal_order = on;
        self
    }

    /// Sets how calls are made instead of finding it out.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Allows connections to other machines without verified encryption.
    #[must_use]
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Sets how long one call waits for somebody else's lock.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Sets how long one call of a relay may run on the server.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Sets how long a call waits for a free connection.
    #[must_use]
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire_timeout = timeout;
        self
    }

    /// Sets how long opening one connection may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the number of connections for operators and the application's transactions.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }
}
