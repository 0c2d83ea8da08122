//! What is wrong with one route.

use std::time::Duration;

use crate::duration::format_duration;
use crate::name::RouteName;
use crate::port::{RelaySeen, RouteCounts};
use crate::shown::counted;
use crate::status::Status;

use super::problem::{Problem, ProblemKind};
use super::{Limits, Look, whole};

/// Everything that is wrong with this route.
pub(super) fn problems(counts: &RouteCounts, look: &Look<'_>, limits: &Limits) -> Vec<Problem> {
    let relays = look.relays;
    let down = circuit(counts, relays);
    let waiting = match down {
        Some(_) => None,
        None => late(counts, relays, limits.max_age)
            .or_else(|| died(counts, relays))
            .or_else(|| unrelayed(counts, look, limits)),
    };
    [dead(counts), down, waiting].into_iter().flatten().collect()
}

/// The relays that are running on this route.
pub(super) fn running<'a>(route: &RouteName, relays: &'a [RelaySeen]) -> impl Iterator<Item = &'a RelaySeen> {
    relays.iter().filter(move |relay| relay.route == *route && !relay.is_gone())
}

/// The relay whose destination has been down for the longest time, if no relay of the route can deliver.
pub(super) fn down<'a>(route: &RouteName, relays: &'a [RelaySeen]) -> Option<&'a RelaySeen> {
    let first = running(route, relays).min_by_key(|relay| relay.down_since)?;
    let all_down = running(route, relays).all(RelaySeen::is_down);
    (all_down && first.is_down()).then_some(first)
}

fn problem(kind: ProblemKind, route: &RouteName, what: String, advice: String) -> Problem {
    Problem { kind, route: Some(route.clone()), what, advice }
}

fn dead(counts: &RouteCounts) -> Option<Problem> {
    let (route, dead) = (&counts.route, counts.of(Status::Dead));
    let blocked = counts.heads.first().map(|head| {
        format!(
            "; they block {}, most of them behind {} of key {:?}",
            counted(counts.blocked, "entry", "entries"),
            head.event_id,
            head.key
        )
    });
    let what = format!("{dead} dead on route {route}{}", blocked.unwrap_or_default());
    let advice = format!(
        "`pillarbox list --status dead --route {route}` shows why, `pillarbox requeue --status dead --route \
         {route}` retries them"
    );
    (dead > 0).then(|| problem(ProblemKind::Dead, route, what, advice))
}

/// No relay of the route reaches its destination. Entries that wait for it spend no attempt.
fn circuit(counts: &RouteCounts, relays: &[RelaySeen]) -> Option<Problem> {
    let route = &counts.route;
    let relay = down(route, relays)?;
    let now = relay.seen_at.saturating_add(relay.unseen_for);
    let lasted = relay.down_since.map_or(Duration::ZERO, |since| now.since(since));
    let why = relay.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let times = if relay.outages == 1 { "once".to_owned() } else { format!("{} times", relay.outages) };
    let what = format!(
        "the circuit of {route} is open; its destination has been down for {} (tried {times}){why}",
        whole(lasted)
    );
    let advice = format!(
        "{}; no attempt is spent on them",
        counted(counts.undrained(), "entry waits", "entries wait")
    );
    Some(problem(ProblemKind::Circuit, route, what, advice))
}

fn late(counts: &RouteCounts, relays: &[RelaySeen], max_age: Duration) -> Option<Problem> {
    let route = &counts.route;
    let age = counts.oldest_due_age.filter(|age| *age > max_age)?;
    let running = running(route, relays).count();
    let (kind, hint) = match (&counts.paused, running) {
        (Some(pause), _) => (
            ProblemKind::Paused,
            format!(
                "the route was paused by {} at {}; `pillarbox resume {route}` resumes it",
                pause.actor, pause.at
            ),
        ),
        (None, 0) => (ProblemKind::Unrelayed, format!("no relay of {route} is running")),
        (None, running) => (
            ProblemKind::Late,
            format!("relays running on it: {running}. If this persists, start more relays"),
        ),
    };
    let what = format!(
        "the oldest due entry of route {route} has waited for {}; the limit is {}: {hint}",
        whole(age),
        format_duration(max_age),
    );
    Some(problem(kind, route, what, String::new()))
}

/// A relay that stops withdraws its announcement; a relay that died does not, and its entries wait for another.
fn died(counts: &RouteCounts, relays: &[RelaySeen]) -> Option<Problem> {
    let route = &counts.route;
    if counts.undrained() == 0 || running(route, relays).next().is_some() {
        return None;
    }
    let gone = relays.iter().filter(|relay| relay.route == *route).min_by_key(|relay| relay.unseen_for)?;
    let what = format!(
        "no relay delivers route {route}: relay {} was last seen {} ago and did not stop normally",
        gone.owner,
        whole(gone.unseen_for),
    );
    Some(problem(ProblemKind::Unrelayed, route, what, "Start a relay".to_owned()))
}

/// Nothing moves a route that should be delivered all the time. `max_age` is for entries that a relay is at work on, so
/// this is told earlier.
fn unrelayed(counts: &RouteCounts, look: &Look<'_>, limits: &Limits) -> Option<Problem> {
    let route = &counts.route;
    let age = counts.oldest_due_age.filter(|age| *age > limits.unrelayed_after)?;
    let is_delivered = counts.paused.is_some() || running(route, look.relays).next().is_some();
    if is_delivered || !look.configured.contains(route) {
        return None;
    }
    let what = format!(
        "no relay of {route} is running; {}, the oldest due one for {}",
        counted(counts.undrained(), "entry waits", "entries wait"),
        whole(age),
    );
    Some(problem(ProblemKind::Unrelayed, route, what, "Start a relay".to_owned()))
}
