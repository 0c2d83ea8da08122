//! Small parts that many views share: marks, links, words.

use std::time::Duration;

use maud::{Markup, PreEscaped, html};
use pillarbox_core::health::{ProblemKind, RouteState};
use pillarbox_core::port::Pause;
use pillarbox_core::{Failure, RouteName, SagaStatus, Standing, Status, StepState};

use crate::security::urlencode;
use crate::shared::Shared;
use crate::text;

/// The shapes of states. Each has a colour too, and a word stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Moving,
    Waiting,
    Flying,
    Retrying,
    Dead,
    Blocked,
    Paused,
    Stuck,
    Gone,
    Done,
}

impl Mark {
    pub(super) fn of_problem(kind: ProblemKind) -> Self {
        match kind {
            ProblemKind::Dead | ProblemKind::StuckSagas => Self::Dead,
            ProblemKind::Paused => Self::Paused,
            _ => Self::Stuck,
        }
    }

    pub(super) fn of_route(state: RouteState) -> Self {
        match state {
            RouteState::CircuitOpen | RouteState::Unrelayed | RouteState::Late => Self::Stuck,
            RouteState::Blocked => Self::Blocked,
            RouteState::HasDead => Self::Dead,
            RouteState::Paused => Self::Paused,
            RouteState::Moving => Self::Moving,
            _ => Self::Waiting,
        }
    }

    pub(super) fn of_standing(standing: Standing) -> Self {
        match standing {
            Standing::Blocked => Self::Blocked,
            Standing::Is(Status::Pending) => Self::Waiting,
            Standing::Is(Status::InFlight) => Self::Flying,
            Standing::Is(Status::Retrying) => Self::Retrying,
            Standing::Is(Status::Delivered) => Self::Done,
            Standing::Is(Status::Dead) => Self::Dead,
            Standing::Is(Status::Discarded) => Self::Gone,
        }
    }

    pub(super) fn of_saga(status: SagaStatus) -> Self {
        match status {
            SagaStatus::Running => Self::Moving,
            SagaStatus::Blocked => Self::Blocked,
            SagaStatus::Compensating => Self::Retrying,
            SagaStatus::CompensationFailed => Self::Dead,
            SagaStatus::Completed => Self::Done,
            SagaStatus::Compensated | SagaStatus::Abandoned => Self::Gone,
        }
    }

    pub(super) fn of_step(state: StepState) -> Self {
        match state {
            StepState::Waiting => Self::Waiting,
            StepState::Running => Self::Flying,
            StepState::Done => Self::Done,
            StepState::Dead | StepState::Failed | StepState::CompensationFailed => Self::Dead,
            StepState::Undoing | StepState::Compensating => Self::Retrying,
            StepState::Compensated | StepState::Abandoned | StepState::Skipped => Self::Gone,
        }
    }

    const fn drawing(self) -> (&'static str, &'static str) {
        match self {
            Self::Moving => (
                "moving",
                r#"<path d="M2 6h6M5.5 2.8 9 6 5.5 9.2" fill="none" stroke="currentColor" stroke-width="1.5"/>"#,
            ),
            Self::Waiting => (
                "waiting",
                r#"<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.5"/>"#,
            ),
            Self::Flying => ("flying", r#"<circle cx="6" cy="6" r="4" fill="currentColor"/>"#),
            Self::Retrying => (
                "retrying",
                r#"<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor"/>"#,
            ),
            Self::Dead => ("dead", r#"<rect x="2" y="2" width="8" height="8" fill="currentColor"/>"#),
            Self::Blocked => (
                "blocked",
                r#"<rect x="2.5" y="2.5" width="7" height="7" fill="none" stroke="currentColor" stroke-width="1.5"/>"#,
            ),
            Self::Paused => ("paused", r#"<path d="M3 2h2v8H3zM7 2h2v8H7z" fill="currentColor"/>"#),
            Self::Stuck => ("stuck", r#"<path d="M6 1 11.5 11H.5z" fill="currentColor"/>"#),
            Self::Gone => {
                ("gone", r#"<path d="M3 3l6 6M9 3 3 9" stroke="currentColor" stroke-width="1.5"/>"#)
            }
            Self::Done => (
                "done",
                r#"<path d="M2 6.5 5 9.5 10 3" fill="none" stroke="currentColor" stroke-width="1.6"/>"#,
            ),
        }
    }
}

/// The shape of a state.
pub(super) fn mark(mark: Mark) -> Markup {
    let (class, drawing) = mark.drawing();
    html! { svg.mark.(class) viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" { (PreEscaped(drawing)) } }
}

/// A shape with its word.
pub(super) fn state(shape: Mark, words: &str) -> Markup {
    let (class, _) = shape.drawing();
    html! { span.state.(class) { (mark(shape)) (words) } }
}

/// How loud a problem is.
pub(super) fn urgency(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Dead | ProblemKind::StuckSagas | ProblemKind::Paused => "warning",
        _ => "stuck",
    }
}

/// Text in which commands stand between backquotes.
pub(super) fn words(text: &str) -> Markup {
    let parts = text.split('`').enumerate();
    html! {
        @for (place, part) in parts { @if place % 2 == 1 { code { (part) } } @else { (text::visible(part)) } }
    }
}

/// The first characters of a text.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    let text = text::visible(text);
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What went wrong: its name, and how its text begins.
pub(super) fn error(error: &Failure) -> Markup {
    html! { strong { (error.name()) } @if !error.text().is_empty() { " " (cut(error.text(), 160)) } }
}

/// The path of a route's page.
pub(super) fn route_path(shared: &Shared, route: &str) -> String {
    shared.path(&format!("/routes/{}", urlencode(route)))
}

/// The path of an entry's page.
pub(super) fn entry_path(shared: &Shared, id: impl std::fmt::Display) -> String {
    shared.path(&format!("/entries/{id}"))
}

/// A number that is only loud if it is not zero.
pub(super) fn number(count: u64) -> Markup {
    html! { @if count == 0 { span.zero { "0" } } @else { (text::count(count)) } }
}

/// An age, or a dash.
pub(super) fn age_or_dash(age: Option<Duration>) -> String {
    age.map_or_else(|| "–".to_owned(), text::age)
}

/// Who paused a route and why.
pub(super) fn paused(pause: &Pause) -> Markup {
    html! {
        "paused by " (text::visible(&pause.actor)) " at " (pause.at)
        @if !pause.reason.is_empty() { ": " (text::visible(&pause.reason)) }
    }
}

/// What pauses a route, or resumes one that is paused. Only an operator sees it.
pub(super) fn pause_button(route: &RouteName, is_paused: bool, pause: &str, resume: &str) -> Markup {
    let (verb, label) = if is_paused { ("resume", resume) } else { ("pause", pause) };
    html! { button.act type="button" data-route-verb=(verb) data-route-name=(route) { (label) } }
}

/// A command to type, with a button that copies it.
pub(super) fn command(text: &str) -> Markup {
    html! { div.command { code { (text) } button.quiet type="button" data-copy=(text) { "copy" } } }
}

/// Links to the other pages of a list: to its beginning from a later page, to the next page if there is one.
pub(super) fn pages(beginning: Option<String>, next: Option<String>) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if let Some(beginning) = beginning { a href=(beginning) { "from the beginning" } }
            @match next {
                Some(next) => { a rel="next" href=(next) { "next page" } }
                None => { span.zero { "that is all" } }
            }
        }
    }
}

/// A quiet line where there is nothing to show.
pub(super) fn nothing(words: &str) -> Markup {
    html! { p.nothing { (words) } }
}
