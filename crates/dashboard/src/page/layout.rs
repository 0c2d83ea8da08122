//! What every page has: the bar, the verdict, and where the parts go.

use maud::{DOCTYPE, Markup, html};

use crate::options::Role;
use crate::sampler::Snapshot;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::parts::{self, Mark};

/// The views in the bar: name, path.
const VIEWS: [(&str, &str); 7] = [
    ("Overview", "/"),
    ("Entries", "/entries"),
    ("Dead", "/dead"),
    ("Sagas", "/sagas"),
    ("Relays", "/relays"),
    ("Inbox", "/inbox"),
    ("Audit", "/audit"),
];

/// A page around its content.
pub(super) struct Frame<'a> {
    shared: &'a Shared,
    visitor: &'a Visitor,
    title: String,
    /// The path of the view in the bar.
    here: &'static str,
    /// What the stream sends: the view, and its route.
    live: Option<(&'static str, Option<String>)>,
    query: String,
}

impl<'a> Frame<'a> {
    pub(super) fn new(shared: &'a Shared, visitor: &'a Visitor, title: impl Into<String>) -> Self {
        Self { shared, visitor, title: title.into(), here: "", live: None, query: String::new() }
    }

    /// The view in the bar that is open.
    pub(super) fn here(mut self, path: &'static str) -> Self {
        self.here = path;
        self
    }

    /// The view that the stream keeps alive.
    pub(super) fn live(mut self, view: &'static str, route: Option<String>) -> Self {
        self.live = Some((view, route));
        self
    }

    /// The filter that stands in the search field.
    pub(super) fn query(mut self, query: String) -> Self {
        self.query = query;
        self
    }

    /// The whole page.
    pub(super) fn page(&self, content: &Markup) -> Markup {
        let (shared, snapshot) = (self.shared, self.shared.look());
        let (view, route) = self.live.clone().unwrap_or(("none", None));
        let may_act = self.visitor.role == Role::Operator && shared.refuses_changes().is_none();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · " (shared.options.title) " · Pillarbox" }
                    link rel="icon" href=(shared.path("/assets/icon.svg")) type="image/svg+xml";
                    link rel="stylesheet" href=(shared.path("/assets/page.css"));
                    script src=(shared.path("/assets/page.js")) defer {}
                }
                body data-prefix=(shared.options.prefix) data-view=(view) data-route=(route.unwrap_or_default())
                    data-actor=(self.visitor.name.clone().unwrap_or_default()) data-may-act=(may_act) {
                    a.skip href="#main" { "Skip to the content" }
                    (self.bar())
                    div.verdict-line role="status" { div data-live="verdict" { (verdict(shared, &snapshot)) } }
                    main #main tabindex="-1" {
                        @if let Some(why) = shared.refuses_changes() {
                            p.notice { "Read only: " (why) }
                        }
                        (content)
                    }
                    footer { div data-live="age" { (age(shared, &snapshot)) } }
                    (dialogs())
                }
            }
        }
    }

    fn bar(&self) -> Markup {
        let shared = self.shared;
        html! {
            header.bar {
                a.brand href=(shared.path("/")) { img src=(shared.path("/assets/icon.svg")) alt="" width="18" height="18"; "Pillarbox" }
                span.database title=(shared.options.title) { (shared.options.title) }
                nav aria-label="Views" {
                    @for (name, path) in VIEWS {
                        a href=(shared.path(path)) aria-current=[(path == self.here).then_some("page")] { (name) }
                    }
                    @if shared.options.findings.is_some() {
                        a href=(shared.path("/doctor")) aria-current=[(self.here == "/doctor").then_some("page")] { "Doctor" }
                    }
                }
                form.search role="search" action=(shared.path("/entries")) method="get" {
                    input #search name="q" type="search" value=(self.query) autocomplete="off" spellcheck="false"
                        placeholder="route:mail status:dead" aria-label="Filter entries, or an event id";
                    kbd aria-hidden="true" { "/" }
                }
                div.live-state {
                    span #live-mark role="status" { "connecting" }
                    button.quiet #live-pause type="button" aria-pressed="false" { "pause" }
                }
                div.who {
                    @match &self.visitor.name {
                        Some(name) => { span { (name) " (" (self.visitor.role.as_str()) ")" } }
                        None => { span { (self.visitor.role.as_str()) } }
                    }
                    @if self.visitor.has_session { button.quiet type="button" data-logout="" { "log out" } }
                }
            }
        }
    }
}

/// The verdict in a sentence, with the way to what it is about.
pub(super) fn verdict(shared: &Shared, snapshot: &Snapshot) -> Markup {
    let verdict = &snapshot.verdict;
    let Some(worst) = verdict.worst() else {
        return html! { p.verdict.calm { (parts::mark(Mark::Moving)) span { (verdict.sentence()) } } };
    };
    let others = verdict.problems.len().saturating_sub(1);
    let advice = worst.advice.as_str();
    html! {
        div.verdict.(parts::urgency(worst.kind)) {
            (parts::mark(Mark::of_problem(worst.kind)))
            div {
                p { strong { (parts::words(&worst.what)) "." } @if !advice.is_empty() { " " (parts::words(advice)) "." } }
                @if others > 0 {
                    details {
                        summary { (others) @if others == 1 { " more problem" } @else { " more problems" } }
                        ul {
                            @for problem in verdict.problems.iter().filter(|problem| *problem != worst) {
                                li { (parts::words(&problem.message())) }
                            }
                        }
                    }
                }
            }
            @if let Some(route) = &worst.route {
                div.buttons {
                    a.button href=(parts::route_path(shared, route.as_str())) { "open " (parts::cut(route.as_str(), 24)) }
                    (parts::pause_button(route, snapshot.route(route).is_some_and(|view| view.counts.paused.is_some()), "pause it", "resume it"))
                }
            }
        }
    }
}

/// When the numbers were read, and what it cost.
pub(super) fn age(shared: &Shared, snapshot: &Snapshot) -> Markup {
    let now = shared.clock.now();
    html! {
        @match &snapshot.lost {
            Some(lost) => {
                p.lost {
                    "Last known numbers, from " (text::moment(snapshot.at, now)) " UTC, " (text::age(now.since(snapshot.at))) " ago. The database cannot be read since "
                    (text::moment(lost.since, now)) ": " (lost.why) ". Reading is tried again every few seconds."
                }
            }
            None => {
                p { "Read at " time { (text::moment(snapshot.at, now)) } " UTC in " (snapshot.cost.as_millis()) " ms. Times are UTC." }
            }
        }
    }
}

fn dialogs() -> Markup {
    html! {
        dialog #confirm aria-labelledby="confirm-title" {
            form method="dialog" {
                h2 #confirm-title { "Are you sure?" }
                p #confirm-text {}
                ul #confirm-more {}
                label #confirm-reason-label hidden { "Reason, for the audit trail" input #confirm-reason maxlength="500" autocomplete="off"; }
                label #confirm-name-label hidden { "Your name, for the audit trail" input #confirm-name maxlength="100" autocomplete="name"; }
                div.buttons {
                    button type="submit" value="no" { "Cancel" }
                    button.primary #confirm-yes type="submit" value="yes" { "Do it" }
                }
            }
        }
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys {
                @for (key, what) in [
                    ("/", "search"), ("j  k", "next and previous row"), ("x", "select the row"), ("enter", "open the row"),
                    ("r", "requeue the selection or the row"), ("g o", "overview"), ("g d", "dead letters"), ("p", "pause the live view"),
                    ("?", "this list"), ("esc", "close"),
                ] { dt { kbd { (key) } } dd { (what) } }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
        div.actions #actions hidden {
            span #actions-count {}
            button.primary type="button" data-bulk="requeue" { "Requeue" }
            button type="button" data-bulk="retry" { "Retry now" }
            button.danger type="button" data-bulk="discard" { "Discard" }
            button.danger type="button" data-bulk="cancel" { "Cancel" }
            button.quiet type="button" data-bulk="none" { "Clear" }
        }
        div.toast #toast role="status" aria-live="polite" hidden {}
    }
}
