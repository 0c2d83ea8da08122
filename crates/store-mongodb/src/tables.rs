//! Names of collections and indexes for one prefix.

use crate::options::Options;

/// The names of the collections of one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// The bare prefix.
    pub(crate) prefix: String,
    pub(crate) outbox: String,
    pub(crate) audit: String,
    pub(crate) saga: String,
    pub(crate) inbox: String,
    pub(crate) inbox_fence: String,
    pub(crate) relay: String,
    pub(crate) route_state: String,
    pub(crate) lane_session: String,
    pub(crate) lane: String,
    pub(crate) serial: String,
    pub(crate) schema: String,
}

/// The index that claims, counts and reaps use: entries that are not at their end.
pub(crate) const OPEN: &str = "outbox_open";
/// The index that lanes read.
pub(crate) const LANE: &str = "outbox_lane";
/// The index of entries at their end.
pub(crate) const ENDED: &str = "outbox_ended";
/// The index of causal claims.
pub(crate) const CAUSAL: &str = "outbox_causal";
/// The index of sequence numbers.
pub(crate) const SEQ: &str = "outbox_seq";
/// The index of event ids.
pub(crate) const EVENT: &str = "outbox_event";

impl Tables {
    /// The names that these settings mean.
    pub(crate) fn new(options: &Options) -> Self {
        let prefix = options.prefix.as_str();
        let name = |suffix: &str| format!("{prefix}_{suffix}");
        Self {
            prefix: prefix.to_owned(),
            outbox: name("outbox"),
            audit: name("audit"),
            saga: name("saga"),
            inbox: name("inbox"),
            inbox_fence: name("inbox_fence"),
            relay: name("relay"),
            route_state: name("route_state"),
            lane_session: name("lane_session"),
            lane: name("lane"),
            serial: name("serial"),
            schema: name("schema"),
        }
    }

    /// The name of an index.
    pub(crate) fn index(&self, suffix: &str) -> String {
        format!("{}_{suffix}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::Ident;

    #[test]
    fn names_begin_with_the_prefix() {
        let tables = Tables::new(&Options::default().prefix(Ident::new("order").unwrap()));
        assert_eq!(tables.outbox, "order_outbox");
        assert_eq!(tables.index(OPEN), "order_outbox_open");
    }
}
