//! Where the tables are and how to talk to their server.

use std::time::Duration;

use pillarbox_core::{Ident, setters};

/// Settings of an outbox, a store or an inbox on MariaDB or MySQL. All three must use the same tables. The tables are in
/// the database that the URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The prefix of the names of all tables and indexes. Default: `pillarbox`.
    pub prefix: Ident,
    /// Whether `migrate` also creates the index that claims in causal order need. Default: `false`.
    pub causal_order: bool,
    /// Whether a connection to another machine may be in plain text. Only if this is `true`, `ssl-mode` may be
    /// `PREFERRED` or `DISABLED`. Default: `false`.
    pub insecure: bool,
    /// How long opening one connection may take. Default: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a call waits for a free connection. Default: 10 seconds.
    pub acquire_timeout: Duration,
    /// How long one statement of a relay may run on the server. Default: 30 seconds.
    pub statement_timeout: Duration,
    /// How long one statement waits for a lock that another transaction holds, in whole seconds. Default: 5 seconds.
    pub lock_timeout: Duration,
    /// Connections for operators and for the application's transactions. Relays have connections of their own: two to
    /// read with, two for claims, two for sagas, and three for extends and settles, so that no other call can starve
    /// them. All are
    /// opened when needed. Default: 4.
    pub connections: u32,
}

/// Which connections a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Operators, and the application's own transactions.
    Operator,
    /// Single statements of relays: looks and notes.
    Reading,
    /// Transactions that claim, reap, purge and share lanes.
    Relay,
    /// Transactions that extend and settle: never behind the others.
    Reserved,
    /// Transactions that move sagas: the application's callbacks may write in them, and may take their time.
    Sagas,
}

impl Traffic {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Operator, Self::Reading, Self::Relay, Self::Reserved, Self::Sagas];

    /// Whether a transaction begins with its first statement on these connections, without a BEGIN of its own.
    pub(crate) fn begins_by_itself(self) -> bool {
        matches!(self, Self::Relay | Self::Reserved)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: Ident::default(),
            causal_order: false,
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
        /// Sets the prefix of the names of all tables and indexes.
        prefix: Ident;
        /// Sets whether `migrate` also creates the index that claims in causal order need.
        causal_order: bool;
        /// Sets how long opening one connection may take.
        connect_timeout: Duration;
        /// Sets how long a call waits for a free connection.
        acquire_timeout: Duration;
        /// Sets how long one statement waits for a lock that another transaction holds.
        lock_timeout: Duration;
        /// Sets how long one statement of a relay may run on the server.
        statement_timeout: Duration;
        /// Sets whether a connection to another machine may be in plain text.
        insecure: bool;
        /// Sets the number of connections for operators and the application's transactions.
        connections: u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_prefix_is_pillarbox() {
        assert_eq!(Options::default().prefix.as_str(), "pillarbox");
    }
}
