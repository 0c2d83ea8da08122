//! The general checks of the doctor: facts of any database go in, findings come out.

mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::backoff::Backoff;
use crate::name::RouteName;
use crate::port::{Connections, Finding, OpenTransaction, RelaySeen, RouteCounts, SagaCounts, SchemaState};
use crate::time::Timestamp;

/// Everything that the general checks judge.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The state of the tables.
    pub schema: SchemaState,
    /// The time by the database's clock, and by this process's clock at the same moment.
    pub clocks: (Timestamp, Timestamp),
    /// The server's connections. `None`: there is no server.
    pub connections: Option<Connections>,
    /// Transactions that are open for longer than the limit. `None`: not known.
    pub transactions: Option<Vec<OpenTransaction>>,
    /// Counts per route.
    pub routes: Vec<RouteCounts>,
    /// Counts of sagas.
    pub sagas: SagaCounts,
    /// The relays that were seen.
    pub relays: Vec<RelaySeen>,
    /// The configured routes.
    pub configured: Vec<RoutePolicy>,
    /// How long the inbox remembers events.
    pub inbox_retention: Duration,
    /// The longest wait of a due entry that is no problem.
    pub due_age_max: Duration,
}

/// What the configuration says of a route.
#[derive(Clone, Debug)]
pub struct RoutePolicy {
    /// The route.
    pub route: RouteName,
    /// The attempts of an entry.
    pub max_attempts: u32,
    /// The wait between them.
    pub backoff: Backoff,
    /// How long a claim protects an entry.
    pub lease: Duration,
}

impl RoutePolicy {
    /// The longest time between the first and the last delivery of one entry, without requeues and outages.
    #[must_use]
    pub fn redelivery_window(&self) -> Duration {
        let attempts = self.max_attempts.max(1);
        // Beyond the doubling every wait is the longest one.
        let doubling = attempts.saturating_sub(1).min(32);
        let waits: Duration = (1..=doubling)
            .map(|attempt| self.backoff.delay(attempt, u64::MAX).unwrap_or(self.backoff.max()))
            .sum();
        let rest = self.backoff.max().saturating_mul(attempts.saturating_sub(1) - doubling);
        waits.saturating_add(rest).saturating_add(self.lease.saturating_mul(attempts))
    }
}

/// Judges the facts. Every check is in the answer, also one that found nothing wrong. The worst finding comes first.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = server::schema(&facts.schema);
    findings.push(server::clock(facts.clocks));
    findings.extend(facts.connections.map(server::connections));
    findings.extend(facts.transactions.iter().flat_map(|open| server::transactions(open)));
    findings.extend(routes::routes(facts));
    findings.extend(routes::sagas(&facts.sagas));
    findings.extend(routes::retention(facts));
    sort(&mut findings);
    findings
}

/// The worst first; among equals the order of the checks.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}
