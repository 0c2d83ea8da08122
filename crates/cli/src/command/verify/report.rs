//! What was found, as JSON and for people.

use std::fmt;

use pillarbox_core::EventId;
use serde::Serialize;

use super::ledger::{Findings, Ledger};
use super::plan::Check;
use super::{Order, VerifyArgs};
use crate::output::{Align, Table};

/// Everything that was compared.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether everything was compared, and nothing was found that is not allowed.
    pub(crate) ok: bool,
    pub(crate) routes: Vec<RouteReport>,
    /// What was asked for and could not be compared.
    pub(crate) not_compared: Vec<NotCompared>,
}

/// A route that could not be compared.
#[derive(Debug, Serialize)]
pub(crate) struct NotCompared {
    pub(crate) route: String,
    pub(crate) why: String,
}

/// What was found on one route.
#[derive(Debug, Serialize)]
pub(crate) struct RouteReport {
    pub(crate) route: String,
    pub(crate) from: String,
    pub(crate) staged: u64,
    pub(crate) received: u64,
    pub(crate) waiting: u64,
    pub(crate) dead: u64,
    pub(crate) discarded: u64,
    pub(crate) lost: u64,
    /// Messages beyond the first of their event.
    pub(crate) duplicated: u64,
    pub(crate) invented: u64,
    pub(crate) unreadable: u64,
    pub(crate) out_of_order: u64,
    /// Whether the order of a key is promised.
    pub(crate) order: Order,
    pub(crate) of_other_routes: u64,
    pub(crate) maybe_purged: u64,
    /// Messages that the destination has deleted.
    pub(crate) deleted: u64,
    pub(crate) examples: Vec<Example>,
}

/// One event that something is wrong with.
#[derive(Debug, Serialize)]
pub(crate) struct Example {
    pub(crate) finding: &'static str,
    pub(crate) event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// How often it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u32>,
}

impl RouteReport {
    pub(crate) fn new(check: &Check, ledger: &Ledger, was_purged: bool, deleted: u64, limit: u32) -> Self {
        let findings = ledger.findings(was_purged);
        Self {
            route: check.route.to_string(),
            from: check.from.clone(),
            staged: findings.staged,
            received: findings.received,
            waiting: findings.waiting,
            dead: findings.dead,
            discarded: findings.discarded,
            lost: count(&findings.lost),
            duplicated: findings.duplicated.iter().map(|(_, times)| u64::from(*times) - 1).sum(),
            invented: count(&findings.invented),
            unreadable: findings.unreadable,
            out_of_order: count(&findings.out_of_order),
            order: check.order,
            of_other_routes: findings.elsewhere,
            maybe_purged: findings.purged,
            deleted,
            examples: examples(ledger, &findings, limit),
        }
    }

    /// What is wrong, in words; nothing if nothing is, or all of it is allowed.
    pub(crate) fn wrong(&self, args: &VerifyArgs) -> Vec<String> {
        [
            (self.lost, "lost", true),
            (self.duplicated, "duplicated", !args.allow_duplicates),
            (self.invented, "invented", true),
            (self.unreadable, "unreadable", true),
            (self.out_of_order, "out of order", self.order == Order::Key),
        ]
        .into_iter()
        .filter(|(count, _, counts)| *count > 0 && *counts)
        .map(|(count, what, _)| format!("{count} {what}"))
        .collect()
    }

    /// What to know of the figures.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                notes.push(format!("{}: {count} {text}", self.route));
            }
        };
        note(
            self.deleted,
            "messages were deleted from the destination, so entries reported as lost may have arrived",
        );
        note(
            self.maybe_purged,
            "messages have no entry in the table; it may have been purged. Use --staged FILE to be sure",
        );
        note(self.of_other_routes, "messages belong to other routes with the same destination");
        if self.order == Order::None {
            note(self.out_of_order, "out of order: this route does not keep order; order = \"key\" does");
        }
        notes
    }
}

fn examples(ledger: &Ledger, findings: &Findings, limit: u32) -> Vec<Example> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let example = |finding, event_id: EventId, times| Example {
        finding,
        event_id,
        key: ledger.key_of(event_id).map(str::to_owned),
        times,
    };
    let lost = findings.lost.iter().take(limit).map(|id| example("lost", *id, None));
    let duplicated =
        findings.duplicated.iter().take(limit).map(|(id, times)| example("duplicated", *id, Some(*times)));
    let invented = findings.invented.iter().take(limit).map(|id| example("invented", *id, None));
    let late = findings.out_of_order.iter().take(limit).map(|id| example("out_of_order", *id, None));
    lost.chain(duplicated).chain(invented).chain(late).collect()
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = [
            "staged",
            "received",
            "waiting",
            "dead",
            "discarded",
            "lost",
            "duplicated",
            "invented",
            "unreadable",
            "out of order",
        ];
        let columns: Vec<_> = [("route", Align::Left)]
            .into_iter()
            .chain(figures.map(|figure| (figure, Align::Right)))
            .collect();
        let mut table = Table::new(&columns);
        for route in &self.routes {
            let figures = [
                route.staged,
                route.received,
                route.waiting,
                route.dead,
                route.discarded,
                route.lost,
                route.duplicated,
                route.invented,
                route.unreadable,
                route.out_of_order,
            ];
            table.row([route.route.clone()].into_iter().chain(figures.map(|figure| figure.to_string())));
        }
        write!(f, "{table}")?;
        for NotCompared { route, why } in &self.not_compared {
            write!(f, "\nnot compared: {route}: {why}")?;
        }
        if self.routes.iter().all(|route| route.examples.is_empty()) {
            return Ok(());
        }
        let mut table = Table::new(&[
            ("finding", Align::Left),
            ("route", Align::Left),
            ("event id", Align::Left),
            ("key", Align::Left),
            ("times", Align::Right),
        ]);
        for route in &self.routes {
            for Example { finding, event_id, key, times } in &route.examples {
                table.row([
                    finding.replace('_', " "),
                    route.route.clone(),
                    event_id.to_string(),
                    key.clone().unwrap_or_default(),
                    times.map(|times| times.to_string()).unwrap_or_default(),
                ]);
            }
        }
        write!(f, "\n\n{table}")
    }
}
