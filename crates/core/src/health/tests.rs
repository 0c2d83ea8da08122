//! The verdict on what was seen.

use super::*;
use crate::circuit::CircuitState;
use crate::event::EventId;
use crate::name::RouteName;
use crate::outcome::{Failure, FailureKind};
use crate::port::{BlockingHead, Pause, RunId};
use crate::saga::SagaStatus;
use crate::status::Status;
use crate::time::Timestamp;

const MAX_AGE: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits { max_age: MAX_AGE, unrelayed_after: Duration::from_secs(15) };

fn counts(route: &str, dead: u64, age: Option<u64>) -> RouteCounts {
    let mut counts = RouteCounts::zero(RouteName::new(route).unwrap());
    counts.counts.insert(Status::Dead, dead);
    counts.counts.insert(Status::Pending, u64::from(age.is_some()));
    counts.oldest_due_age = age.map(Duration::from_secs);
    counts
}

fn relay(unseen_secs: u64, circuit: CircuitState) -> RelaySeen {
    let at = |secs: i64| Timestamp::from_micros(1_767_225_600_000_000 + secs * 1_000_000).unwrap();
    let down = circuit != CircuitState::Closed;
    RelaySeen {
        run: RunId(1),
        route: RouteName::new("orders").unwrap(),
        owner: "host-7".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit,
        down_since: down.then_some(at(0)),
        outages: if down { 3 } else { 0 },
        reason: down.then(|| Failure::new(FailureKind::Down, "unreachable", "connection refused")),
        started_at: at(0),
        seen_at: at(60),
        unseen_for: Duration::from_secs(unseen_secs),
        lease_until: at(70),
    }
}

fn judge(routes: &[RouteCounts], sagas: &SagaCounts, relays: &[RelaySeen]) -> Verdict {
    judge_configured(&[], routes, sagas, relays)
}

fn judge_configured(
    configured: &[RouteName],
    routes: &[RouteCounts],
    sagas: &SagaCounts,
    relays: &[RelaySeen],
) -> Verdict {
    Verdict::of(&Look { routes, configured, sagas, relays, tables: None }, &LIMITS)
}

fn kinds(verdict: &Verdict) -> Vec<(ProblemKind, Option<&str>)> {
    verdict.problems.iter().map(|one| (one.kind, one.route.as_ref().map(RouteName::as_str))).collect()
}

#[test]
fn everything_that_is_wrong_is_named_and_not_the_first_thing() {
    let mut sagas = SagaCounts::zero();
    sagas.counts.insert(SagaStatus::Blocked, 2);
    let routes = [counts("a", 0, Some(60)), counts("b", 3, Some(61)), counts("c", 0, Some(90))];
    let verdict = judge(&routes, &sagas, &[]);
    let wanted = [
        (ProblemKind::StuckSagas, None),
        (ProblemKind::Dead, Some("b")),
        (ProblemKind::Unrelayed, Some("b")),
        (ProblemKind::Unrelayed, Some("c")),
    ];
    assert_eq!(kinds(&verdict), wanted);
    assert_eq!(verdict.worst().unwrap().route.as_ref().unwrap().as_str(), "b");
    assert!(verdict.sentence().contains("no relay of b is running"), "{}", verdict.sentence());
    assert!(judge(&routes[..1], &SagaCounts::zero(), &[]).is_healthy());
}

#[test]
fn a_dead_entry_says_what_it_holds_back() {
    let mut blocked = counts("orders", 1, None);
    blocked.blocked = 7;
    let event_id = EventId(uuid::Uuid::nil());
    blocked.heads = vec![BlockingHead { event_id, key: "o-1".into(), blocked: 7 }];
    let verdict = judge(&[blocked], &SagaCounts::zero(), &[]);
    assert_eq!(kinds(&verdict), [(ProblemKind::Dead, Some("orders"))]);
    let message = verdict.problems[0].message();
    assert!(message.contains("they block 7 entries") && message.contains("o-1"), "{message}");
}

#[test]
fn a_paused_route_is_late_because_it_is_paused() {
    let mut paused = counts("orders", 0, Some(61));
    paused.paused = Some(Pause { at: Timestamp::MIN, actor: "ana".into(), reason: String::new() });
    let verdict = judge(&[paused.clone()], &SagaCounts::zero(), &[]);
    assert_eq!(kinds(&verdict), [(ProblemKind::Paused, Some("orders"))]);
    assert!(
        verdict.problems[0].what.contains("paused by ana") && verdict.problems[0].what.contains("resume")
    );
    assert_eq!(RouteState::of(&paused, &[], MAX_AGE), RouteState::Paused);
}

#[test]
fn a_route_whose_relay_died_is_named_before_it_is_late() {
    let routes = [counts("orders", 0, Some(1))];
    let gone = relay(45, CircuitState::Closed);
    let verdict = judge(&routes, &SagaCounts::zero(), &[gone]);
    assert_eq!(kinds(&verdict), [(ProblemKind::Unrelayed, Some("orders"))]);
    assert!(judge(&routes, &SagaCounts::zero(), &[relay(1, CircuitState::Closed)]).is_healthy());
}

#[test]
fn an_open_circuit_is_told_with_its_age_its_reason_and_what_waits() {
    let routes = [counts("orders", 0, Some(61))];
    let verdict = judge(&routes, &SagaCounts::zero(), &[relay(2, CircuitState::Open)]);
    assert_eq!(kinds(&verdict), [(ProblemKind::Circuit, Some("orders"))]);
    let message = verdict.problems[0].message();
    for part in ["down for 1m2s (tried 3 times): down/unreachable", "1 entry waits", "no attempt"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(
        RouteState::of(&routes[0], &[relay(2, CircuitState::Probing)], MAX_AGE),
        RouteState::CircuitOpen
    );
}

#[test]
fn a_circuit_is_no_problem_while_another_relay_delivers() {
    let relays = [relay(2, CircuitState::Open), relay(2, CircuitState::Closed)];
    assert!(judge(&[counts("orders", 0, Some(1))], &SagaCounts::zero(), &relays).is_healthy());
    // What a relay that is gone last said of its destination is no news.
    let gone = judge(&[counts("orders", 0, None)], &SagaCounts::zero(), &[relay(45, CircuitState::Open)]);
    assert!(gone.is_healthy(), "{gone:?}");
}

#[test]
fn a_stuck_saga_is_unhealthy_and_named_by_what_it_is() {
    let sagas = |changes: &[(SagaStatus, u64)]| {
        let mut counts = SagaCounts::zero();
        counts.counts.extend(changes.iter().copied());
        counts
    };
    let fine = sagas(&[(SagaStatus::Running, 9), (SagaStatus::Compensating, 1)]);
    assert!(judge(&[], &fine, &[]).is_healthy());
    let stuck = judge(&[], &sagas(&[(SagaStatus::Blocked, 2), (SagaStatus::CompensationFailed, 1)]), &[]);
    assert!(stuck.problems[0].what.contains("2 sagas blocked"), "{stuck:?}");
    assert!(stuck.problems[1].what.contains("1 saga compensation_failed"), "{stuck:?}");
    let late = SagaCounts { overdue: 1, ..sagas(&[(SagaStatus::Running, 1)]) };
    assert!(judge(&[], &late, &[]).problems[0].what.contains("1 saga overdue"));
}

#[test]
fn tables_that_do_not_fit_come_before_everything_but_the_database() {
    let older = SchemaState::Older { found: 1, wanted: 2 };
    let routes = [counts("b", 3, Some(61))];
    let sagas = SagaCounts::zero();
    let look = Look { routes: &routes, configured: &[], sagas: &sagas, relays: &[], tables: Some(&older) };
    let verdict = Verdict::of(&look, &LIMITS);
    assert_eq!(verdict.worst().unwrap().kind, ProblemKind::Tables);
    assert!(verdict.sentence().contains("`pillarbox migrate` upgrades them"));
    let lost = Verdict::unreadable(&crate::Error::new(crate::ErrorKind::Unavailable, "connection refused"));
    assert_eq!(lost.sentence(), "the database cannot be read: connection refused");
}

#[test]
fn a_calm_day_is_told_in_a_sentence() {
    let say =
        |routes: &[RouteCounts], relays: &[RelaySeen]| judge(routes, &SagaCounts::zero(), relays).sentence();
    assert_eq!(say(&[], &[]), "No events have been staged yet.");
    assert_eq!(say(&[counts("a", 0, None)], &[]), "The only route is drained; nothing waits.");
    let mut moving = counts("orders", 0, Some(0));
    moving.oldest_due_age = Some(Duration::from_millis(420));
    assert_eq!(
        say(&[moving, counts("b", 0, None)], &[relay(1, CircuitState::Closed)]),
        "All 2 routes are moving; the oldest due event has waited 0.4 s."
    );
}

#[test]
fn a_configured_route_without_a_relay_is_a_problem_after_a_short_grace() {
    let judge = |configured: &[&str], counts: RouteCounts, relays: &[RelaySeen]| {
        let configured: Vec<_> = configured.iter().map(|name| RouteName::new(*name).unwrap()).collect();
        judge_configured(&configured, &[counts], &SagaCounts::zero(), relays)
    };
    let verdict = judge(&["orders"], counts("orders", 0, Some(16)), &[]);
    assert_eq!(kinds(&verdict), [(ProblemKind::Unrelayed, Some("orders"))]);
    assert_eq!(
        verdict.sentence(),
        "no relay of orders is running; 1 entry waits, the oldest due one for 16s"
    );
    assert!(judge(&["orders"], counts("orders", 0, Some(15)), &[]).is_healthy());
    // A relay of another route may start at intervals, so only the limit of all entries counts.
    assert!(judge(&["mail"], counts("orders", 0, Some(60)), &[]).is_healthy());
    let late = judge(&["mail"], counts("orders", 0, Some(61)), &[]);
    assert_eq!(kinds(&late), [(ProblemKind::Unrelayed, Some("orders"))]);
    assert!(
        judge(&["orders"], counts("orders", 0, Some(16)), &[relay(1, CircuitState::Closed)]).is_healthy()
    );
    let mut paused = counts("orders", 0, Some(16));
    paused.paused = Some(Pause { at: Timestamp::MIN, actor: "ana".into(), reason: String::new() });
    assert!(judge(&["orders"], paused, &[]).is_healthy());
}

#[test]
fn what_no_relay_delivers_is_never_said_to_move() {
    let say =
        |routes: &[RouteCounts], relays: &[RelaySeen]| judge(routes, &SagaCounts::zero(), relays).sentence();
    let fresh = counts("orders", 0, Some(4));
    assert_eq!(
        say(&[fresh.clone(), counts("b", 0, None)], &[]),
        "No relay of orders is running; 1 entry waits, the oldest due one for 4.0 s."
    );
    let mut later = counts("b", 0, None);
    later.counts.insert(Status::Retrying, 2);
    assert_eq!(say(&[later.clone()], &[]), "No relay of b is running; 2 entries wait.");
    assert_eq!(
        say(&[fresh.clone(), later.clone()], &[]),
        "No relay of orders and 1 other is running; 3 entries wait, the oldest due one for 4.0 s."
    );
    let pause = Pause { at: Timestamp::MIN, actor: "ana".into(), reason: String::new() };
    later.paused = Some(pause.clone());
    let alive = [relay(1, CircuitState::Closed)];
    assert_eq!(say(&[fresh.clone(), later.clone()], &alive), "Route b is paused; 2 entries wait.");
    let paused = RouteCounts { paused: Some(pause), ..fresh };
    assert_eq!(
        say(&[paused, later], &[]),
        "Routes orders and 1 other are paused; 3 entries wait, the oldest due one for 4.0 s."
    );
}

#[test]
fn routes_are_sorted_by_how_much_they_need_somebody() {
    let state = |counts: &RouteCounts, relays: &[RelaySeen]| RouteState::of(counts, relays, MAX_AGE);
    let alive = [relay(1, CircuitState::Closed)];
    assert_eq!(state(&counts("orders", 0, Some(1)), &[]), RouteState::Unrelayed);
    assert_eq!(state(&counts("orders", 0, Some(61)), &alive), RouteState::Late);
    assert_eq!(state(&counts("orders", 1, Some(1)), &alive), RouteState::HasDead);
    assert_eq!(state(&counts("orders", 0, Some(1)), &alive), RouteState::Moving);
    assert_eq!(state(&counts("orders", 0, None), &alive), RouteState::Idle);
    assert!(RouteState::CircuitOpen < RouteState::HasDead && RouteState::Moving < RouteState::Idle);
}

#[test]
fn kinds_are_read_back() {
    for kind in ProblemKind::ALL {
        assert_eq!(kind.to_string().parse::<ProblemKind>().unwrap(), kind);
    }
    assert!("gone".parse::<ProblemKind>().unwrap_err().message().contains("circuit"));
}
