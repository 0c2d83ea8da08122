//! Where the tables are and how to talk to their server.

use std::time::Duration;

use pillarbox_core::{Ident, setters};

/// Settings of an outbox, a store or an inbox on MongoDB. All three must use the same collections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The prefix of the names of all collections and indexes. Default: `pillarbox`.
    pub prefix: Ident,
    /// The database of the collections. Default: the one that the URL of the client names.
    pub database: Option<String>,
    /// Whether `migrate` also creates the index that claims in causal order need. Default: `false`.
    pub causal_order: bool,
    /// Whether a connection to another machine may be in plain text. Only if this is `true`, the URL may say
    /// `tls=false`. Default: `false`.
    pub insecure: bool,
    /// How long opening one connection may take. Default: 10 seconds.
    pub connect_timeout: Duration,
    /// How long a call waits for a free connection. Default: 10 seconds.
    pub acquire_timeout: Duration,
    /// How long one statement of a relay may run on the server. Default: 30 seconds.
    pub statement_timeout: Duration,
    /// How long a call waits for another transaction that writes the same document, where it can wait at all.
    /// Default: 5 seconds.
    pub lock_timeout: Duration,
    /// Connections for operators and for the application's transactions. Relays have sixteen of their own, so that no
    /// other call can starve them. All are opened when needed. Default: 4.
    pub connections: u32,
}

/// Which connections a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Operators, and the application's own transactions.
    Operator,
    /// Everything that relays do.
    Relay,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: Ident::default(),
            database: None,
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
        /// Sets the prefix of the names of all collections and indexes.
        prefix: Ident;
        /// Sets the database of the collections.
        database: String as some_into;
        /// Sets whether `migrate` also creates the index that claims in causal order need.
        causal_order: bool;
        /// Sets how long opening one connection may take.
        connect_timeout: Duration;
        /// Sets how long a call waits for a free connection.
        acquire_timeout: Duration;
        /// Sets how long a call waits for another transaction that writes the same document.
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
