//! Everything that is wrong, for `status --check` and its JSON.

use std::time::Duration;

use pillarbox_core::port::{RelaySeen, RouteCounts, SagaCounts, SchemaState};
use pillarbox_core::{RouteName, Status, format_duration};
use serde::Serialize;

use super::{relays, sagas, whole_seconds};
use crate::fault::Fault;

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    /// `stuck_sagas`, `dead`, `late`, `paused`, `unrelayed` or `tables`.
    pub(super) kind: &'static str,
    pub(super) route: Option<RouteName>,
    /// What is wrong, and what to do.
    pub(super) message: String,
}

/// All of it: behind a stuck saga there are dead entries too, and beside both a route that nobody relays.
pub(super) fn find(
    routes: &[RouteCounts],
    counts: &SagaCounts,
    relays: &[RelaySeen],
    max_age: Duration,
) -> Vec<Problem> {
    let stuck = sagas::problems(counts).into_iter();
    let stuck = stuck.map(|message| Problem { kind: "stuck_sagas", route: None, message });
    let of_routes = routes.iter().flat_map(|counts| {
        let waiting = late(counts, relays, max_age).or_else(|| died(counts, relays));
        [dead(counts), waiting].into_iter().flatten()
    });
    stuck.chain(of_routes).collect()
}

/// What was only a warning when the database was opened.
pub(super) fn of_tables(tables: &SchemaState) -> Vec<Problem> {
    let SchemaState::Ready { warnings } = tables else { return vec![] };
    let problem = |message: &String| Problem { kind: "tables", route: None, message: message.clone() };
    warnings.iter().map(problem).collect()
}

/// Unhealthy with all of them.
pub(super) fn check(problems: &[Problem]) -> Result<(), Fault> {
    match problems {
        [] => Ok(()),
        [one] => Err(Fault::Unhealthy(one.message.clone())),
        many => {
            let lines: String = many.iter().map(|problem| format!("\n  {}", problem.message)).collect();
            Err(Fault::Unhealthy(format!("{} problems:{lines}", many.len())))
        }
    }
}

fn dead(counts: &RouteCounts) -> Option<Problem> {
    let (route, dead) = (&counts.route, counts.of(Status::Dead));
    let blocked = counts.heads.first().map(|head| {
        format!(
            "; they block {} entries, most of them behind {} of key {:?}",
            counts.blocked, head.event_id, head.key
        )
    });
    let message = format!(
        "{dead} dead on route {route}{}. `pillarbox list --status dead --route {route}` shows why, \
         `pillarbox requeue --status dead --route {route}` retries them",
        blocked.unwrap_or_default()
    );
    (dead > 0).then(|| Problem { kind: "dead", route: Some(route.clone()), message })
}

fn late(counts: &RouteCounts, relays: &[RelaySeen], max_age: Duration) -> Option<Problem> {
    let route = &counts.route;
    let age = counts.oldest_due_age.filter(|age| *age > max_age)?;
    let (kind, hint) = match &counts.paused {
        Some(pause) => (
            "paused",
            format!(
                "the route was paused by {} at {}; `pillarbox resume {route}` resumes it",
                pause.actor, pause.at
            ),
        ),
        None if !relays::is_relayed(route, relays) => ("unrelayed", relays::hint(route, relays)),
        None => ("late", relays::hint(route, relays)),
    };
    let message = format!(
        "the oldest due entry of route {route} has waited for {}; the limit is {}: {hint}",
        format_duration(whole_seconds(age)),
        format_duration(max_age),
    );
    Some(Problem { kind, route: Some(route.clone()), message })
}

/// A relay that stopped says so; one that died does not, and what it left waits for another.
fn died(counts: &RouteCounts, relays: &[RelaySeen]) -> Option<Problem> {
    let route = &counts.route;
    if counts.undrained() == 0 || relays::is_relayed(route, relays) {
        return None;
    }
    let gone = relays.iter().filter(|relay| relay.route == *route).min_by_key(|relay| relay.unseen_for)?;
    let message = format!(
        "no relay delivers route {route}: relay {} was last seen {} ago and did not stop normally. Start a \
         relay",
        gone.owner,
        format_duration(whole_seconds(gone.unseen_for)),
    );
    Some(Problem { kind: "unrelayed", route: Some(route.clone()), message })
}

#[cfg(test)]
mod tests {
    use pillarbox_core::port::{BlockingHead, Pause};
    use pillarbox_core::{EventId, SagaStatus, Timestamp};

    use super::*;

    fn counts(route: &str, dead: u64, age: Option<u64>) -> RouteCounts {
        let mut counts = RouteCounts::zero(RouteName::new(route).unwrap());
        counts.counts.insert(Status::Dead, dead);
        counts.counts.insert(Status::Pending, u64::from(age.is_some()));
        counts.oldest_due_age = age.map(Duration::from_secs);
        counts
    }

    fn kinds(problems: &[Problem]) -> Vec<(&str, Option<&str>)> {
        problems.iter().map(|problem| (problem.kind, problem.route.as_ref().map(RouteName::as_str))).collect()
    }

    const MAX_AGE: Duration = Duration::from_secs(60);

    #[test]
    fn everything_that_is_wrong_is_named_and_not_the_first_thing() {
        let mut sagas = SagaCounts::zero();
        sagas.counts.insert(SagaStatus::Blocked, 2);
        let routes = [counts("a", 0, Some(60)), counts("b", 3, Some(61)), counts("c", 0, Some(90))];
        let problems = find(&routes, &sagas, &[], MAX_AGE);
        let wanted =
            [("stuck_sagas", None), ("dead", Some("b")), ("unrelayed", Some("b")), ("unrelayed", Some("c"))];
        assert_eq!(kinds(&problems), wanted);
        let fault = check(&problems).unwrap_err();
        assert_eq!(fault.exit_code(), 3);
        let message = fault.message().unwrap();
        for part in ["4 problems:", "2 sagas blocked", "3 dead on route b.", "no relay of b", "no relay of c"]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(check(&find(&routes[..1], &SagaCounts::zero(), &[], MAX_AGE)).is_ok());
    }

    #[test]
    fn a_dead_entry_says_what_it_holds_back() {
        let mut blocked = counts("orders", 1, None);
        blocked.blocked = 7;
        let event_id = EventId(uuid::Uuid::nil());
        blocked.heads = vec![BlockingHead { event_id, key: "o-1".into(), blocked: 7 }];
        let problems = find(&[blocked], &SagaCounts::zero(), &[], MAX_AGE);
        assert_eq!(kinds(&problems), [("dead", Some("orders"))]);
        assert!(problems[0].message.contains("they block 7 entries") && problems[0].message.contains("o-1"));
    }

    #[test]
    fn a_paused_route_is_late_because_it_is_paused() {
        let mut paused = counts("orders", 0, Some(61));
        paused.paused = Some(Pause { at: Timestamp::MIN, actor: "ops".into(), reason: String::new() });
        let problems = find(&[paused], &SagaCounts::zero(), &[], MAX_AGE);
        assert_eq!(kinds(&problems), [("paused", Some("orders"))]);
        assert!(problems[0].message.contains("pillarbox resume orders"));
    }

    #[test]
    fn a_route_whose_relay_died_is_named_before_it_is_late() {
        let gone = relays::tests::relay(45, pillarbox_core::CircuitState::Closed);
        let problems = find(&[counts("orders", 0, Some(1))], &SagaCounts::zero(), &[gone], MAX_AGE);
        assert_eq!(kinds(&problems), [("unrelayed", Some("orders"))]);
        let alive = relays::tests::relay(1, pillarbox_core::CircuitState::Closed);
        assert!(find(&[counts("orders", 0, Some(1))], &SagaCounts::zero(), &[alive], MAX_AGE).is_empty());
    }
}
