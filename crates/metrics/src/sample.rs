//! What is read from the store, at an interval of the application's own.

use std::collections::BTreeMap;

use pillarbox_core::port::{Admin, Pool, Presence, RelaySeen, RouteCounts, SagaAdmin, SagaCounts};
use pillarbox_core::{Result, RouteName};

/// The state of the store that the metrics show.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreSample {
    /// Counts per route. Configured routes without entries are in it, with zeros.
    pub routes: Vec<RouteCounts>,
    /// Counts of sagas.
    pub sagas: SagaCounts,
    /// The relays that were seen, in any process.
    pub relays: Vec<RelaySeen>,
    /// The connections of this process to the database. `None`: not known.
    pub pool: Option<Pool>,
    /// Events per second that consumers accept, in any process. Empty: not known, or none.
    pub accepted: BTreeMap<String, f64>,
}

impl StoreSample {
    /// A sample from what was read already.
    #[must_use]
    pub fn new(routes: Vec<RouteCounts>, sagas: SagaCounts, relays: Vec<RelaySeen>) -> Self {
        Self { routes, sagas, relays, pool: None, accepted: BTreeMap::new() }
    }

    /// Reads a sample: three calls, each answered by an index. `configured` are routes that are shown even if the
    /// store knows nothing of them.
    ///
    /// # Errors
    /// When the store fails. Call [`Metrics::lose_store`](crate::Metrics::lose_store) then.
    pub async fn read(
        admin: &dyn Admin,
        sagas: &dyn SagaAdmin,
        presence: &dyn Presence,
        configured: impl IntoIterator<Item = &RouteName>,
    ) -> Result<Self> {
        let mut routes = admin.counts(None).await?;
        for route in configured {
            if !routes.iter().any(|counts| counts.route == *route) {
                routes.push(RouteCounts::zero(route.clone()));
            }
        }
        let sample = Self::new(routes, sagas.saga_counts(None).await?, presence.relays(None).await?);
        Ok(sample.pool(admin.connections()))
    }

    /// Adds the connections to the database.
    #[must_use]
    pub fn pool(mut self, pool: Option<Pool>) -> Self {
        self.pool = pool;
        self
    }

    /// Adds how many events per second each consumer accepts.
    #[must_use]
    pub fn accepted(mut self, accepted: BTreeMap<String, f64>) -> Self {
        self.accepted = accepted;
        self
    }
}
