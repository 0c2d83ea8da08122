//! How the tables are named and what they must be able to do.

use std::time::Duration;

use pillarbox_core::{Ident, setters};

/// Settings that staging, relaying and migrating must share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The prefix of the names of all tables and indexes. Default: `pillarbox`.
    pub prefix: Ident,
    /// Whether `migrate` also creates the index that claims in causal order need. Default: false.
    pub causal_order: bool,
    /// How long a call waits for another writer of the file. After that it fails with
    /// [`Contention`](pillarbox_core::ErrorKind::Contention). Default: 5 seconds.
    pub busy_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefix: Ident::default(), causal_order: false, busy_timeout: Duration::from_secs(5) }
    }
}

setters! {
    impl Options {
        /// Sets the prefix of the names of all tables and indexes.
        prefix: Ident;
        /// Sets whether `migrate` also creates the index that claims in causal order need.
        causal_order: bool;
        /// Sets how long a call waits for another writer of the file.
        busy_timeout: Duration;
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
