use std::time::Duration;

use super::*;
use crate::backoff::Jitter;
use crate::circuit::CircuitState;
use crate::event::EventId;
use crate::outcome::{Failure, FailureKind};
use crate::port::{BlockingHead, Pause, RunId, Severity};
use crate::saga::SagaStatus;
use crate::status::Status;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000).unwrap()
}

fn route(name: &str) -> RouteName {
    RouteName::new(name).unwrap()
}

fn relay(name: &str, circuit: CircuitState) -> RelaySeen {
    RelaySeen {
        run: RunId(1),
        route: route(name),
        owner: "host-7".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit,
        down_since: (circuit != CircuitState::Closed).then(|| at(50)),
        outages: 3,
        reason: (circuit != CircuitState::Closed)
            .then(|| Failure::new(FailureKind::Down, "refused", "nobody listens")),
        started_at: at(1),
        seen_at: at(100),
        unseen_for: Duration::ZERO,
        lease_until: at(130),
    }
}

/// A database in which all is well.
fn well() -> Facts {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300), Jitter::None).unwrap();
    let policy =
        RoutePolicy { route: route("orders"), max_attempts: 5, backoff, lease: Duration::from_secs(30) };
    Facts {
        schema: SchemaState::Ready { warnings: vec![] },
        clocks: (at(100), at(100)),
        connections: Some(Connections { max: 100, used: 10, ours_max: 15 }),
        transactions: Some(vec![]),
        routes: vec![RouteCounts::zero(route("orders"))],
        sagas: SagaCounts::zero(),
        relays: vec![relay("orders", CircuitState::Closed)],
        configured: vec![policy],
        inbox_retention: Duration::from_secs(86_400),
        due_age_max: Duration::from_secs(300),
    }
}

/// What is found beside what is well, as check and severity; and everything that is said.
fn found(change: impl FnOnce(&mut Facts)) -> (Vec<(&'static str, Severity)>, String) {
    let mut facts = well();
    change(&mut facts);
    let findings = diagnose(&facts);
    let wrong: Vec<_> = findings.iter().filter(|finding| finding.severity != Severity::Ok).collect();
    for finding in &wrong {
        assert!(!finding.next.is_empty(), "{finding:?} says nothing about what to do");
    }
    let said = wrong.iter().map(|finding| format!("{}\n", finding.reason)).collect();
    (wrong.iter().map(|finding| (finding.check, finding.severity)).collect(), said)
}

fn check(change: impl FnOnce(&mut Facts), wanted: &[(&'static str, Severity)], named: &str) {
    let (wrong, said) = found(change);
    assert_eq!(wrong, wanted, "{said}");
    assert!(said.contains(named), "{named:?} is not in: {said}");
}

use Severity::{Problem, Warning};

#[test]
fn where_all_is_well_every_check_says_so() {
    assert_eq!(found(|_| {}).0, []);
    let checks: Vec<_> = diagnose(&well()).iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["schema", "clock", "connections", "transactions", "routes", "sagas", "retention"]);
}

#[test]
fn tables_that_are_wrong_or_lack_an_index_are_a_problem() {
    check(|facts| facts.schema = SchemaState::Missing, &[("schema", Problem)], "");
    let warnings = vec!["the index x is missing".to_owned()];
    check(|facts| facts.schema = SchemaState::Ready { warnings }, &[("schema", Problem)], "index x");
}

#[test]
fn a_clock_that_differs_is_told_with_its_direction() {
    check(|facts| facts.clocks = (at(98), at(100)), &[("clock", Warning)], "2s behind");
    check(|facts| facts.clocks = (at(300), at(100)), &[("clock", Problem)], "ahead of");
    assert_eq!(found(|facts| facts.clocks = (at(101), at(100))).0, []);
}

#[test]
fn connections_are_told_before_they_are_spent() {
    let used = |used| {
        move |facts: &mut Facts| facts.connections = Some(Connections { max: 100, used, ours_max: 15 })
    };
    assert_eq!(found(used(79)).0, []);
    check(used(80), &[("connections", Warning)], "80 of 100");
    check(used(95), &[("connections", Problem)], "95 of 100");
    let few = Some(Connections { max: 20, used: 6, ours_max: 15 });
    check(|facts| facts.connections = few, &[("connections", Warning)], "at most 15");
    assert_eq!(found(|facts| facts.connections = None).0, []);
}

#[test]
fn a_held_transaction_names_its_holder() {
    let held = OpenTransaction { age: Duration::from_secs(3600), holder: "process 42 of reports".into() };
    check(
        |facts| facts.transactions = Some(vec![held]),
        &[("transactions", Problem)],
        "1h, held by process 42",
    );
}

#[test]
fn a_route_that_nobody_relays_is_a_problem_once_something_waits() {
    check(|facts| facts.relays.clear(), &[("relays", Warning)], "0 entries wait");
    check(
        |facts| {
            facts.relays.clear();
            facts.routes[0].counts.insert(Status::Pending, 3);
        },
        &[("relays", Problem)],
        "3 entries wait",
    );
    check(
        |facts| facts.relays[0].unseen_for = Duration::from_secs(90),
        &[("relays", Warning)],
        "host-7 was last seen 1m30s ago",
    );
    // Staged to a route that is written wrongly: no configuration has it.
    check(
        |facts| {
            let mut misspelt = RouteCounts::zero(route("order"));
            misspelt.counts.insert(Status::Pending, 1);
            facts.routes.push(misspelt);
        },
        &[("relays", Problem)],
        "no relay delivers route order;",
    );
}

#[test]
fn an_open_circuit_says_since_when_and_why() {
    check(
        |facts| facts.relays = vec![relay("orders", CircuitState::Open)],
        &[("circuit", Problem)],
        "found 3 times: down/refused",
    );
}

#[test]
fn a_late_a_dead_and_a_paused_route_are_told_apart() {
    check(
        |facts| facts.routes[0].oldest_due_age = Some(Duration::from_secs(301)),
        &[("oldest_due", Problem)],
        "5m1s",
    );
    check(
        |facts| {
            facts.routes[0].counts.insert(Status::Dead, 2);
        },
        &[("dead", Problem)],
        "has 2 dead entries",
    );
    check(
        |facts| {
            facts.routes[0].counts.insert(Status::Dead, 1);
            facts.routes[0].blocked = 9;
            let event_id = EventId(uuid::Uuid::nil());
            facts.routes[0].heads = vec![BlockingHead { event_id, key: "o-1".into(), blocked: 9 }];
        },
        &[("blocked", Problem)],
        "1 dead entry of route orders blocks 9 others",
    );
    check(
        |facts| {
            facts.routes[0].oldest_due_age = Some(Duration::from_secs(900));
            facts.routes[0].paused = Some(Pause { at: at(7), actor: "ana".into(), reason: String::new() });
        },
        &[("paused", Warning)],
        "paused by ana",
    );
}

#[test]
fn stuck_and_overdue_sagas_are_told() {
    check(
        |facts| {
            facts.sagas.counts.insert(SagaStatus::Blocked, 2);
            facts.sagas.overdue = 1;
        },
        &[("sagas", Problem), ("sagas", Problem)],
        "2 sagas wait",
    );
}

#[test]
fn an_inbox_that_forgets_before_the_last_retry_is_a_problem() {
    // Waits of 1, 2, 4 and 8 seconds, and five leases of 30.
    assert_eq!(well().configured[0].redelivery_window(), Duration::from_secs(15 + 150));
    check(|facts| facts.inbox_retention = Duration::from_secs(165), &[("retention", Problem)], "2m45s");
    assert_eq!(found(|facts| facts.inbox_retention = Duration::from_secs(166)).0, []);
}

#[test]
fn the_worst_comes_first() {
    let mut facts = well();
    facts.clocks = (at(98), at(100));
    facts.sagas.overdue = 1;
    let severities: Vec<_> = diagnose(&facts).iter().map(|finding| finding.severity).take(3).collect();
    assert_eq!(severities, [Problem, Warning, Severity::Ok]);
}
