//! Labels, and the bound on how many there are.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;

/// The most routes, and the most consumers, that have labels of their own. Further ones share [`OTHER`].
pub const NAMES_MAX: usize = 100;
/// The label of everything beyond [`NAMES_MAX`].
pub const OTHER: &str = "other";

/// The label `route`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Route {
    pub(crate) route: String,
}

/// The labels `route` and `outcome`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RouteOutcome {
    pub(crate) route: String,
    pub(crate) outcome: &'static str,
}

/// The labels `route` and `status`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RouteStatus {
    pub(crate) route: String,
    pub(crate) status: &'static str,
}

/// The labels `route` and `call`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RouteCall {
    pub(crate) route: String,
    pub(crate) call: &'static str,
}

/// The label `consumer`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Consumer {
    pub(crate) consumer: String,
}

/// The labels `consumer` and `outcome`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ConsumerOutcome {
    pub(crate) consumer: String,
    pub(crate) outcome: &'static str,
}

/// The label `status`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StatusOnly {
    pub(crate) status: &'static str,
}

/// The label `state`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct State {
    pub(crate) state: &'static str,
}

/// The label of an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Trace {
    pub(crate) trace_id: String,
}

/// The names that have labels of their own.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<BTreeSet<String>>);

impl Names {
    /// The label of a name: itself, or [`OTHER`] when there are too many.
    pub(crate) fn bounded(&self, name: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(name) {
            if known.len() >= NAMES_MAX {
                return OTHER.to_owned();
            }
            known.insert(name.to_owned());
        }
        name.to_owned()
    }
}
