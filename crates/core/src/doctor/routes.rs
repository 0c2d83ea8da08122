//! Checks of routes, sagas and retention.

use std::time::Duration;

use super::Facts;
use crate::duration::format_duration;
use crate::port::{Finding, RelaySeen, RouteCounts, SagaCounts};
use crate::saga::SagaStatus;
use crate::shown::counted;
use crate::status::Status;

pub(super) fn routes(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for counts in &facts.routes {
        let before = findings.len();
        findings.extend(unrelayed(counts, facts));
        findings.extend(circuit(counts, &facts.relays));
        findings.extend(late(counts, facts));
        findings.extend(dead(counts));
        findings.extend(paused(counts));
        if findings.len() == before {
            findings.push(well(counts));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("routes", "no route is configured, and none has entries"));
    }
    findings
}

/// The relays of a route that run.
fn live<'a>(counts: &RouteCounts, relays: &'a [RelaySeen]) -> impl Iterator<Item = &'a RelaySeen> {
    relays.iter().filter(move |relay| relay.route == counts.route && !relay.is_gone())
}

fn unrelayed(counts: &RouteCounts, facts: &Facts) -> Option<Finding> {
    let route = &counts.route;
    let is_configured = facts.configured.iter().any(|policy| policy.route == *route);
    let waiting = counts.undrained();
    let wait = counted(waiting, "entry waits", "entries wait");
    if live(counts, &facts.relays).next().is_some() || (waiting == 0 && !is_configured) {
        return None;
    }
    let gone = facts.relays.iter().filter(|relay| relay.route == *route).min_by_key(|relay| relay.unseen_for);
    let seen = gone
        .map(|relay| format!(", and relay {} was last seen {} ago", relay.owner, seconds(relay.unseen_for)));
    let reason = format!("no relay delivers route {route}{}; {wait}", seen.unwrap_or_default());
    let next = if is_configured {
        "Start `pillarbox relay` with this configuration."
    } else {
        "Configure the route and start `pillarbox relay`, or correct the route in the application that stages to it."
    };
    Some(if waiting > 0 {
        Finding::problem("relays", reason, next).of(route)
    } else {
        Finding::warning("relays", reason, next).of(route)
    })
}

fn circuit(counts: &RouteCounts, relays: &[RelaySeen]) -> Option<Finding> {
    let route = &counts.route;
    let down = live(counts, relays).find(|relay| relay.is_down())?;
    let why = down.reason.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
    let since = down.down_since.map(|at| format!(" since {at}")).unwrap_or_default();
    let reason =
        format!("the destination of route {route} is down{since}, found {} times{why}", down.outages);
    let next =
        "Entries wait and no attempt is spent. Mend the destination or its address; the relay probes it.";
    Some(Finding::problem("circuit", reason, next).of(route))
}

fn late(counts: &RouteCounts, facts: &Facts) -> Option<Finding> {
    let route = &counts.route;
    let age = counts.oldest_due_age.filter(|age| *age > facts.due_age_max && counts.paused.is_none())?;
    let reason = format!(
        "the oldest due entry of route {route} has waited for {}; the limit is {}",
        seconds(age),
        format_duration(facts.due_age_max)
    );
    let next = "If relays run and their circuit is closed, they are too slow: look at the time of claim, publish \
                and settle in the metrics, and start another relay.";
    Some(Finding::problem("oldest_due", reason, next).of(route))
}

fn dead(counts: &RouteCounts) -> Option<Finding> {
    let (route, dead) = (&counts.route, counts.of(Status::Dead));
    if dead == 0 {
        return None;
    }
    let next = format!(
        "`pillarbox list --status dead --route {route}` shows why. `pillarbox requeue --status dead --route \
         {route}` retries them, `pillarbox discard` gives them up."
    );
    Some(match counts.heads.first() {
        Some(head) => Finding::problem(
            "blocked",
            format!(
                "{} of route {route} {} {}, most of them behind {} of key {:?}",
                counted(dead, "dead entry", "dead entries"),
                if dead == 1 { "blocks" } else { "block" },
                counted(counts.blocked, "other", "others"),
                head.event_id,
                head.key
            ),
            next,
        )
        .of(route),
        None => Finding::problem(
            "dead",
            format!("route {route} has {}", counted(dead, "dead entry", "dead entries")),
            next,
        )
        .of(route),
    })
}

fn paused(counts: &RouteCounts) -> Option<Finding> {
    let (route, pause) = (&counts.route, counts.paused.as_ref()?);
    let reason = format!("route {route} was paused by {} at {}", pause.actor, pause.at);
    Some(Finding::warning("paused", reason, format!("`pillarbox resume {route}` resumes it.")).of(route))
}

fn well(counts: &RouteCounts) -> Finding {
    let waited = counts.oldest_due_age.map_or_else(
        || "nothing is due".to_owned(),
        |age| format!("the oldest due entry has waited for {}", seconds(age)),
    );
    Finding::ok("routes", format!("route {} moves: {waited}", counts.route)).of(&counts.route)
}

pub(super) fn sagas(sagas: &SagaCounts) -> Vec<Finding> {
    let stuck: u64 =
        SagaStatus::ALL.into_iter().filter(|status| status.is_stuck()).map(|status| sagas.of(status)).sum();
    let mut findings = Vec::new();
    if stuck > 0 {
        let reason = format!("{stuck} sagas wait for an operator");
        findings.push(Finding::problem("sagas", reason, "`pillarbox saga list` names them."));
    }
    if sagas.overdue > 0 {
        let reason = format!("{} sagas are past their deadline", sagas.overdue);
        findings.push(Finding::problem("sagas", reason, "`pillarbox saga list` names them."));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("sagas", "no saga waits for an operator"));
    }
    findings
}

pub(super) fn retention(facts: &Facts) -> Option<Finding> {
    let longest = facts.configured.iter().max_by_key(|policy| policy.redelivery_window())?;
    let (window, kept) = (longest.redelivery_window(), facts.inbox_retention);
    let reason = format!(
        "the inbox remembers events for {}; route {} can deliver one again for {}",
        seconds(kept),
        longest.route,
        seconds(window)
    );
    Some(if kept <= window {
        let next = "An event that the inbox has forgotten is applied twice. Raise `retention.inbox`.";
        Finding::problem("retention", reason, next)
    } else {
        Finding::ok("retention", reason)
    })
}

fn seconds(age: Duration) -> String {
    format_duration(Duration::from_secs(age.as_secs()))
}
