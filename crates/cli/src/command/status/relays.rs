//! The relays that say that they are there, and what is in the way of those that cannot deliver.

use std::time::Duration;

use pillarbox_core::port::RelaySeen;
use pillarbox_core::{Timestamp, format_duration};
use serde::Serialize;

use super::whole_seconds;
use crate::output::{Align, Table};

/// A relay as `status --json` shows it.
#[derive(Serialize)]
pub(super) struct RelayJson<'a> {
    route: &'a str,
    owner: &'a str,
    mode: &'a str,
    wake: &'a str,
    gone: bool,
    in_flight: u64,
    circuit: &'static str,
    down_since: Option<Timestamp>,
    outages: u32,
    reason: Option<String>,
    started_at: Timestamp,
    seen_at: Timestamp,
    seen_seconds_ago: f64,
}

impl<'a> From<&'a RelaySeen> for RelayJson<'a> {
    fn from(relay: &'a RelaySeen) -> Self {
        Self {
            route: relay.route.as_str(),
            owner: &relay.owner,
            mode: &relay.mode,
            wake: &relay.wake,
            gone: relay.is_gone(),
            in_flight: relay.in_flight,
            circuit: relay.circuit.as_str(),
            down_since: relay.down_since,
            outages: relay.outages,
            reason: relay.reason.as_ref().map(ToString::to_string),
            started_at: relay.started_at,
            seen_at: relay.seen_at,
            seen_seconds_ago: (relay.unseen_for.as_secs_f64() * 1000.0).round() / 1000.0,
        }
    }
}

/// The relays for people.
pub(super) fn table(relays: &[RelaySeen]) -> Table {
    let mut table = Table::new(&[
        ("relay", Align::Left),
        ("route", Align::Left),
        ("mode", Align::Left),
        ("in flight", Align::Right),
        ("circuit", Align::Left),
        ("why", Align::Left),
    ]);
    for relay in relays {
        table.row([
            relay.owner.clone(),
            relay.route.to_string(),
            format!("{}, {}", relay.mode, relay.wake),
            relay.in_flight.to_string(),
            circuit(relay),
            relay.reason.as_ref().filter(|_| relay.is_down()).map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    table
}

// What a relay that is gone last said of its destination is no news.
fn circuit(relay: &RelaySeen) -> String {
    let ago = |age: Duration| format_duration(whole_seconds(age));
    if relay.is_gone() {
        return format!("not running: last seen {} ago", ago(relay.unseen_for));
    }
    match relay.down_since {
        Some(since) => {
            let now = relay.seen_at.saturating_add(relay.unseen_for);
            format!("{} for {}, tried {}x", relay.circuit, ago(now.since(since)), relay.outages)
        }
        None => relay.circuit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::port::RunId;
    use pillarbox_core::{CircuitState, Failure, FailureKind, RouteName};

    use super::*;

    fn relay(unseen_secs: u64, circuit: CircuitState) -> RelaySeen {
        let at = |secs: i64| Timestamp::from_micros(1_767_225_600_000_000 + secs * 1_000_000).unwrap();
        let outage = (circuit != CircuitState::Closed)
            .then(|| (at(0), 3, Failure::new(FailureKind::Down, "unreachable", "connection refused")));
        let mut relay = RelaySeen::new(RunId(1), RouteName::new("orders").unwrap(), "host-7", at(0));
        relay.circuit = circuit;
        relay.down_since = outage.as_ref().map(|(since, ..)| *since);
        relay.outages = outage.as_ref().map_or(0, |(_, times, _)| *times);
        relay.reason = outage.map(|(.., reason)| reason);
        (relay.seen_at, relay.lease_until) = (at(60), at(70));
        relay.unseen_for = Duration::from_secs(unseen_secs);
        relay
    }

    #[test]
    fn an_open_circuit_is_told_with_its_age_and_reason() {
        let text =
            anstream::adapter::strip_str(&table(&[relay(2, CircuitState::Open)]).to_string()).to_string();
        assert!(text.contains("open for 1m2s, tried 3x"), "{text}");
        assert!(text.contains("down/unreachable: connection refused"), "{text}");
    }

    #[test]
    fn a_relay_is_gone_when_its_lease_has_ended() {
        assert!(!relay(9, CircuitState::Closed).is_gone() && relay(12, CircuitState::Closed).is_gone());
    }

    #[test]
    fn a_silent_relay_is_gone_whatever_it_said_last() {
        let text = table(&[relay(45, CircuitState::Open)]).to_string();
        assert!(text.contains("not running: last seen 45s ago") && !text.contains("unreachable"), "{text}");
    }
}
