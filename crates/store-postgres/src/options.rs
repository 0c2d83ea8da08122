//! Where the tables are and how to talk to their server.

use std::time::Duration;

use pillarbox_core::{Ident, setters};

/// Settings of an outbox, a store or an inbox on PostgreSQL. All three must use the same tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The prefix of all table names. Default: `pillarbox`.
    pub prefix: Ident,
    /// The schema of the tables. No statement depends on the `search_path`. Default: `None`, which is
    /// `public`.
    pub schema: Option<Ident>,
    /// Whether `migrate` may create the schema if it does not exist. Default: `false`, because the name may
    /// be misspelt.
    pub create_schema: bool,
    /// Whether `migrate` also creates the index that claims in causal order need. Default: `false`.
    pub causal_order: bool,
    /// How the store calls the server. Default: `None`.
    /// [`PostgresStore::connect`](crate::PostgresStore::connect) then detects whether there is a transaction
    /// pooler. A store on a given pool assumes that there is one. An outbox assumes that the application's
    /// connections are direct.
    pub mode: Option<Mode>,
    /// Whether a connection to another machine may be in plain text. Only if this is `true`, `sslmode` may be
    /// `prefer`, `allow` or `disable`. Default: `false`.
    pub insecure: bool,
    /// How long opening one connection may take. Default: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a call waits for a free connection. Default: 10 seconds.
    pub acquire_timeout: Duration,
    /// How long one call of a relay may run on the server. Default: 30 seconds.
    pub statement_timeout: Duration,
    /// How long one call waits for a lock that another transaction holds. Default: 5 seconds.
    pub lock_timeout: Duration,
    /// Connections for operators and for the application's transactions. Claims have two connections of their
    /// own, and extends and settles have three, so that no other call can starve them. All are opened when
    /// needed. Default: 4.
    pub connections: u32,
}

/// How the store calls the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each connection is a session of its own. Prepared statements are kept, and a call is one round trip.
    Direct,
    /// The server is behind a transaction pooler such as PgBouncer. Every call is a transaction of its own
    /// that leaves nothing behind in the session. This mode works everywhere, and costs a few more round
    /// trips.
    Pooled,
}

/// Which connections a call uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
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

setters! {
    impl Options {
        /// Sets whether `migrate` may create the schema.
        create_schema: bool;
        /// Sets the prefix of all table names.
        prefix: Ident;
        /// Sets the schema of the tables.
        schema: Ident as some;
        /// Sets whether `migrate` also creates the index that claims in causal order need.
        causal_order: bool;
        /// Sets how the store calls the server, instead of detecting it.
        mode: Mode as some;
        /// Sets whether a connection to another machine may be in plain text.
        insecure: bool;
        /// Sets how long one call waits for a lock that another transaction holds.
        lock_timeout: Duration;
        /// Sets how long one call of a relay may run on the server.
        statement_timeout: Duration;
        /// Sets how long a call waits for a free connection.
        acquire_timeout: Duration;
        /// Sets how long opening one connection may take.
        connect_timeout: Duration;
        /// Sets the number of connections for operators and the application's transactions.
        connections: u32;
    }
}
