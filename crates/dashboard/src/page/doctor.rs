//! What will hurt: the findings of a doctor, if this process has one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::port::{Finding, Severity};

use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

pub(crate) async fn doctor(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let Some(findings) = &shared.options.findings else {
        return refused(
            &shared,
            &visitor,
            &Refusal::not_found("This process has no doctor. Run `pillarbox doctor`."),
        );
    };
    let Ok(_turn) = shared.doctor.acquire().await else {
        return refused(&shared, &visitor, &Refusal::bad("The doctor has stopped."));
    };
    let found = match findings.look().await {
        Ok(found) => found,
        Err(error) => return refused(&shared, &visitor, &error.into()),
    };
    let (fine, wrong): (Vec<_>, Vec<_>) = found.iter().partition(|finding| finding.severity == Severity::Ok);
    let frame = Frame::new(&shared, &visitor, "Doctor").here("/doctor");
    let page = frame.page(&html! {
        h1 { "Doctor" }
        @if wrong.is_empty() { p.lead { "Nothing was found that will hurt." } }
        @for finding in &wrong { (told(finding)) }
        @if !fine.is_empty() {
            details { summary { (fine.len()) " checks are in order" } ul { @for finding in &fine { li { (finding.check) ": " (finding.reason) } } } }
        }
    });
    page.into_response()
}

/// A finding in three lines: what, why it will hurt, and what to do.
fn told(finding: &Finding) -> Markup {
    let (mark, severity) = match finding.severity {
        Severity::Problem => (Mark::Stuck, "problem"),
        _ => (Mark::Retrying, "warning"),
    };
    let hurts = hurts(finding.check);
    html! {
        section.finding {
            h2.break { (parts::state(mark, severity)) " " (parts::words(&finding.reason)) }
            @if !hurts.is_empty() { p { (hurts) } }
            p.next { "→ " (parts::words(&finding.next)) }
            @for command in commands(&finding.next) { (parts::command(command)) }
        }
    }
}

/// The commands among the words of an advice that can be typed as they are.
fn commands(next: &str) -> impl Iterator<Item = &str> {
    let quoted = next.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with("pillarbox ") && !text.contains('…'))
}

/// Why what a check finds will hurt. Empty if its advice says so.
fn hurts(check: &str) -> &'static str {
    match check {
        "schema" => {
            "Relays refuse to start on tables that do not fit, and without an index they read far too much."
        }
        "connections" => "When no connection is left, applications cannot stage and relays cannot deliver.",
        "relays" => "Events of this route are staged, and nothing delivers them.",
        "circuit" | "destination" => "Nothing of this route arrives until its destination answers.",
        "oldest_due" => "Every event of this route arrives late, and the wait grows.",
        "dead" => "These events are not delivered until you requeue them.",
        "blocked" => "The others would overtake the dead event of their key, so none of them is delivered.",
        "paused" => "Nothing of this route is delivered until it is resumed.",
        "sagas" => "What their steps have done so far is neither finished nor undone.",
        "order" => "Two events of the same key can arrive in the wrong order.",
        "rights" => "What this user may not do fails at the moment in which it is needed.",
        "plans" => "A statement that reads more than it needs gets slower with every entry that is kept.",
        "indexes" => "The server maintains the index and no statement uses it.",
        "vacuum" => "Dead rows make every claim slower, and the tables grow.",
        "slots" => "The server keeps its log for them until the disk is full.",
        "journal" => "Applications that stage wait for relays, and relays for applications.",
        "write_lock" => "Nothing can be staged, claimed or settled meanwhile.",
        "server" | "replica_set" => "Nothing can be staged, claimed or settled on this server.",
        "file" => "Events can be lost, and what is read cannot be trusted.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_it_is_why_it_hurts_and_what_to_type() {
        let next = "`pillarbox list --status dead --route r` shows why. `pillarbox discard` gives up, `no such` not.";
        let shown = told(&Finding::problem("dead", "route r has 1 dead entry", next)).into_string();
        let place = |part: &str| shown.find(part).unwrap_or_else(|| panic!("{part:?} is not in {shown}"));
        let (what, why) = (place("route r has 1 dead entry"), place("not delivered until"));
        assert!(what < why && why < place("→ "), "{shown}");
        assert!(shown.contains("data-copy=\"pillarbox list --status dead --route r\""), "{shown}");
        assert_eq!(shown.matches("data-copy=").count(), 2, "{shown}");
    }
}
