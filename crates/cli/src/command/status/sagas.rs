//! How many sagas there are, and which of them wait for somebody.

use std::collections::BTreeMap;

use pillarbox_core::port::{RelaySeen, SagaCounts};
use pillarbox_core::{RouteName, SagaStatus, format_duration};
use serde::Serialize;

use super::whole_seconds;
use crate::output::{Align, Table};

/// Sagas as `status --json` shows them.
#[derive(Serialize)]
pub(super) struct SagasJson {
    running: u64,
    blocked: u64,
    compensating: u64,
    compensation_failed: u64,
    completed: u64,
    compensated: u64,
    abandoned: u64,
    overdue: u64,
    stuck: u64,
    oldest_stuck_age_seconds: Option<f64>,
    /// Sagas that have not ended, per route on which relays are running and none that does their steps.
    left_alone: BTreeMap<RouteName, u64>,
}

impl SagasJson {
    pub(super) fn new(counts: &SagaCounts, relays: &[RelaySeen]) -> Self {
        let age = counts.oldest_stuck_age;
        Self {
            running: counts.of(SagaStatus::Running),
            blocked: counts.of(SagaStatus::Blocked),
            compensating: counts.of(SagaStatus::Compensating),
            compensation_failed: counts.of(SagaStatus::CompensationFailed),
            completed: counts.of(SagaStatus::Completed),
            compensated: counts.of(SagaStatus::Compensated),
            abandoned: counts.of(SagaStatus::Abandoned),
            overdue: counts.overdue,
            stuck: counts.stuck(),
            oldest_stuck_age_seconds: age.map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0),
            left_alone: left_alone(counts, relays).map(|(route, sagas)| (route.clone(), sagas)).collect(),
        }
    }
}

/// Routes with sagas that have not ended, on which relays are running and none that does their steps.
fn left_alone<'a>(
    counts: &'a SagaCounts,
    relays: &'a [RelaySeen],
) -> impl Iterator<Item = (&'a RouteName, u64)> {
    let is_left = |route: &RouteName| {
        let mut running = relays.iter().filter(|relay| relay.route == *route && !relay.is_gone()).peekable();
        running.peek().is_some() && !running.any(RelaySeen::does_sagas)
    };
    counts.open.iter().filter(move |(route, _)| is_left(route)).map(|(route, sagas)| (route, *sagas))
}

/// What to say of routes whose relays leave sagas alone.
pub(super) fn warnings(counts: &SagaCounts, relays: &[RelaySeen]) -> Vec<String> {
    let warning = |(route, count): (&RouteName, u64)| {
        format!(
            "route {route}: {} not ended, but no running relay can run their steps. Run a relay with \
             `Relay::sagas` and their handlers on this route",
            if count == 1 { "1 saga has".to_owned() } else { format!("{count} sagas have") }
        )
    };
    left_alone(counts, relays).map(warning).collect()
}

/// The sagas for people; `None` where nobody has any.
pub(super) fn table(counts: &SagaCounts) -> Option<Table> {
    if counts.counts.values().all(|count| *count == 0) {
        return None;
    }
    let mut columns = vec![("sagas", Align::Left)];
    columns.extend(SagaStatus::ALL.map(|status| (status.as_str(), Align::Right)));
    columns.extend([("overdue", Align::Right), ("oldest stuck", Align::Right)]);
    let mut table = Table::new(&columns);
    let age = counts.oldest_stuck_age.map(|age| format_duration(whole_seconds(age)));
    let numbers = SagaStatus::ALL.map(|status| counts.of(status).to_string());
    let last = [counts.overdue.to_string(), age.unwrap_or_else(|| "-".to_owned())];
    table.row(["total".to_owned()].into_iter().chain(numbers).chain(last));
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(changes: &[(SagaStatus, u64)]) -> SagaCounts {
        let mut counts = SagaCounts::zero();
        counts.counts.extend(changes.iter().copied());
        counts
    }

    #[test]
    fn without_sagas_there_is_no_table() {
        assert!(table(&SagaCounts::zero()).is_none());
        assert!(table(&counts(&[(SagaStatus::Completed, 1)])).is_some());
    }
}
