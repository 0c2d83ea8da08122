//! The audit trail: the newest records first, page by page, all of them or those of some kinds.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::{AuditKind, AuditRecord, Timestamp};

use crate::api::{AuditQuery, BY_HAND, GIVEN_UP, OF_SAGAS, PURGES};
use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

/// The kinds that one click shows.
const CHOICES: [(&str, &[AuditKind]); 5] = [
    ("any", &[]),
    ("changes by hand", BY_HAND),
    ("given up", GIVEN_UP),
    ("sagas", OF_SAGAS),
    ("purges", PURGES),
];

pub(crate) async fn audit(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<AuditQuery>,
) -> Response {
    match listed(&shared, &visitor, &query).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn listed(shared: &Shared, visitor: &Visitor, query: &AuditQuery) -> Result<Markup, Refusal> {
    let now = shared.clock.now();
    let records = shared.ports.admin.trail(query.filter(now)?).await?;
    let newest = query.cursor.as_ref().map(|_| AuditQuery { cursor: None, ..query.clone() });
    let older = query.next_cursor(&records);
    let older = older.map(|cursor| AuditQuery { cursor: Some(cursor), ..query.clone() });
    let frame = Frame::new(shared, visitor, "Audit").here("/audit");
    Ok(frame.page(&html! {
        h1 { "Audit" }
        (chips(shared, query))
        (narrowed(shared, query))
        @if records.is_empty() {
            (nothing(shared, query))
        } @else {
            p.lead { (text::count(records.len() as u64)) @if records.len() == 1 { " record." } @else { " records, newest first." } }
            table.audit data-rows="" {
                caption.hidden { "Audit records" }
                thead { tr { th scope="col" { "time" } th scope="col" { "what" } th scope="col" { "who" } th scope="col" { "of" } th scope="col" { "detail" } } }
                tbody { @for record in &records { (row(shared, query, record, now)) } }
            }
        }
        nav.pages aria-label="Pages" {
            @if let Some(newest) = newest { a href=(path(shared, &newest)) { "newest" } }
            @match older {
                Some(older) => { a rel="next" href=(path(shared, &older)) { "older" } }
                None => { @if !records.is_empty() { span.zero { "that is all" } } }
            }
        }
    }))
}

fn path(shared: &Shared, query: &AuditQuery) -> String {
    shared.path(&format!("/audit?{}", query.link()))
}

/// One click for the kinds that belong together.
fn chips(shared: &Shared, query: &AuditQuery) -> Markup {
    html! {
        nav.chips aria-label="Kinds" {
            @for (name, kinds) in CHOICES {
                @let of = query.of_kinds(kinds);
                @let is_here = of.kind == Some(query.kind.clone().unwrap_or_default());
                a href=(path(shared, &of)) aria-current=[is_here.then_some("true")] { (name) }
            }
        }
    }
}

/// What else the address asks for, with the way out.
fn narrowed(shared: &Shared, query: &AuditQuery) -> Markup {
    let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let (actor, since) = (given(&query.actor), given(&query.since));
    let all = AuditQuery { actor: None, since: None, cursor: None, ..query.clone() };
    html! {
        @if actor.is_some() || since.is_some() {
            p {
                "Only records"
                @if let Some(actor) = actor { " of " strong { (parts::cut(&actor, 60)) } }
                @if let Some(since) = since { " since " strong { (parts::cut(&since, 40)) } }
                ". " a href=(path(shared, &all)) { "Show those of everybody" }
            }
        }
    }
}

fn nothing(shared: &Shared, query: &AuditQuery) -> Markup {
    html! {
        section.empty {
            @if query.link().is_empty() { p { "Nothing was given up, changed by hand or purged yet." } }
            @else {
                p { "No records match." }
                p { a href=(shared.path("/audit")) { "Show all records" } }
            }
        }
    }
}

fn row(shared: &Shared, query: &AuditQuery, record: &AuditRecord, now: Timestamp) -> Markup {
    let of_actor = AuditQuery { actor: Some(record.actor.clone()), cursor: None, ..query.clone() };
    html! {
        tr data-key=(record.seq) {
            td data-label="time" { time datetime=(record.at) title=(record.at) { (text::moment(record.at, now)) } }
            td data-label="what" { (parts::state(mark(record.kind), &record.kind.as_str().replace('_', " "))) }
            td.break data-label="who" { a href=(path(shared, &of_actor)) { (parts::cut(&record.actor, 60)) } }
            td.break data-label="of" {
                @if let Some(event) = record.event_id { a href=(parts::entry_path(shared, event)) data-open="" { (text::short_id(&event.to_string())) } " " }
                @if let Some(saga) = record.saga_id { a href=(shared.path(&format!("/sagas/{saga}"))) { "saga " (text::short_id(&saga.to_string())) } " " }
                @if let Some(route) = &record.route { span.route-of { (parts::cut(route.as_str(), 60)) } }
            }
            td.break data-label="detail" { (parts::cut(&record.detail, 200)) }
        }
    }
}

fn mark(kind: AuditKind) -> Mark {
    match kind {
        AuditKind::Dead | AuditKind::StepFailed | AuditKind::CompensationFailed => Mark::Dead,
        AuditKind::Requeued | AuditKind::Hastened | AuditKind::Resumed | AuditKind::RouteResumed => {
            Mark::Moving
        }
        AuditKind::RoutePaused => Mark::Paused,
        AuditKind::StepSucceeded | AuditKind::Completed => Mark::Done,
        AuditKind::Compensating | AuditKind::StepCompensated => Mark::Retrying,
        _ => Mark::Gone,
    }
}
