//! How the tables are named and what they must be able to do.

use std::time::Duration;

use pillarbox_core::Ident;

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

impl Options {
    /// Sets the prefix of the names of all tables and indexes.
    #[must_use]
    pub fn prefix(mut self, prefix: Ident) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets whether `migrate` also creates the index that claims in causal order need.
    #[must_use]
    pub fn causal_order(mut self, causal_order: bool) -> Self {
        self.causal_order = causal_order;
        self
    }

    /// Sets how long a call waits for another writer of the file.
    #[must_use]
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
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
