//! One event: its story on each route that carries it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::port::{Filter, Story};
use pillarbox_core::{AuditKind, Entry, EventId, Status, Timestamp};

use crate::error::Refusal;
use crate::security::{Visitor, urlencode};
use crate::shared::Shared;
use crate::text;

use super::heads::Heads;
use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

/// How many entries behind a dead one are shown.
const BEHIND_SHOWN_MAX: u32 = 10;

pub(crate) async fn entry(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Path(event_id): Path<String>,
) -> Response {
    match shown(&shared, &visitor, &event_id).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn shown(shared: &Shared, visitor: &Visitor, event_id: &str) -> Result<Markup, Refusal> {
    let id: EventId = event_id.parse()?;
    let stories = shared.ports.admin.show(id).await?;
    let Some(first) = stories.first() else {
        return Err(Refusal::not_found(format!("No route carries event {id}. It may have been purged.")));
    };
    let mut behind = Vec::new();
    for story in &stories {
        behind.push(behind_it(shared, &story.entry).await?);
    }
    let entries: Vec<Entry> = stories.iter().map(|story| story.entry.clone()).collect();
    let heads = Heads::of(shared, &entries).await;
    let title = text::visible(&first.entry.event_type);
    let now = shared.clock.now();
    let frame = Frame::new(shared, visitor, title).here("/entries");
    Ok(frame.page(&html! {
        @for (story, behind) in stories.iter().zip(&behind) { (told(shared, story, behind, &heads, now)) }
    }))
}

/// The first entries that wait behind this one.
async fn behind_it(shared: &Shared, entry: &Entry) -> Result<Vec<Entry>, Refusal> {
    let Some(key) = entry.key.clone().filter(|_| entry.status == Status::Dead) else { return Ok(vec![]) };
    let filter = Filter::default()
        .route(entry.route.clone())
        .status(pillarbox_core::Standing::Blocked)
        .key(key)
        .after(entry.seq)
        .limit(BEHIND_SHOWN_MAX);
    let entries = shared.ports.admin.list(filter).await?;
    Ok(entries.into_iter().filter(|other| other.blocked_by == Some(entry.event_id)).collect())
}

fn told(shared: &Shared, story: &Story, behind: &[Entry], heads: &Heads, now: Timestamp) -> Markup {
    let entry = &story.entry;
    let standing = entry.standing();
    let id = entry.event_id.to_string();
    html! {
        article.story {
            div.title-line {
                h1.break { (text::visible(&entry.event_type)) }
                (parts::state(Mark::of_standing(standing), &state_words(entry, now)))
            }
            p.ids {
                "on " a href=(parts::route_path(shared, entry.route.as_str())) { (parts::cut(entry.route.as_str(), 60)) }
                @if let Some(key) = &entry.key { " · key " a href=(shared.path(&format!("/entries?route={}&key={}", urlencode(entry.route.as_str()), urlencode(key)))) { (parts::cut(key, 60)) } }
                " · " code { (id) } " " button.quiet type="button" data-copy=(id) { "copy" }
            }
            (buttons(entry))
            ol.timeline {
                (item("staged", Some(entry.created_at), now, &html! {
                    @if let Some(execution) = &entry.execution_id { "by run " (text::visible(execution)) " " }
                    @if let Some(trace) = entry.headers.get("traceparent") { (traced(shared, trace)) }
                }))
                @if entry.attempts > 1 {
                    (item("attempts", None, now, &html! { "1 to " (entry.attempts - 1) ": their times and errors are not recorded; only the last attempt is." }))
                }
                @if let Some(at) = entry.last_attempt_at {
                    (item(&format!("attempt {}", entry.attempts), Some(at), now, &html! {
                        @if let Some(owner) = &entry.owner { "by relay " (text::visible(owner)) " " }
                        @if let Some(error) = &entry.last_error { span.error-text { strong { (error.name()) } @if !error.text().is_empty() { ": " (text::visible(error.text())) } } }
                        @else if entry.status == Status::Delivered { "confirmed" }
                    }))
                }
                @for record in &story.audit {
                    (item(record.kind.as_str(), Some(record.at), now, &html! {
                        "by " (text::visible(&record.actor)) ", audited"
                        @if !record.detail.is_empty() && record.kind != AuditKind::Dead { ": " (text::visible(&record.detail)) }
                    }))
                }
                @if let Some(at) = entry.settled_at.filter(|_| entry.status == Status::Delivered) { (item("delivered", Some(at), now, &html! {})) }
                @if let Some(at) = entry.due_at.filter(|_| !entry.status.is_terminal()) {
                    (item(if entry.status == Status::InFlight { "lease ends" } else { "next attempt" }, Some(at), now, &html! {}))
                }
            }
            @if let Some(why) = heads.why(shared, entry) {
                p.notice { "It " (why) ". Requeue or discard that one." }
            }
            @if !behind.is_empty() {
                h2 { "Behind it" }
                p { @if behind.len() >= 10 { "10 or more" } @else { (behind.len()) } " events of key " code { (parts::cut(entry.key.as_deref().unwrap_or_default(), 60)) } " wait. " }
                ul.heads { @for other in behind { li.behind { (parts::mark(Mark::Blocked)) a href=(parts::entry_path(shared, other.event_id)) { (parts::cut(&other.event_type, 60)) } " " (text::moment(other.created_at, now)) } } }
            }
            (payload(entry))
            (details(entry))
        }
    }
}

/// The context of the trace that staged an event, with the way to it.
fn traced(shared: &Shared, traceparent: &str) -> Markup {
    let address = shared.options.trace_url.as_ref().and_then(|url| url.of(traceparent));
    html! {
        "trace " code { (text::visible(traceparent)) }
        @if let Some(address) = address { " " a href=(address) rel="noopener noreferrer" target="_blank" { "→ open trace" } }
    }
}

fn state_words(entry: &Entry, now: Timestamp) -> String {
    let name = entry.standing().as_str().replace('_', " ");
    let attempt = match entry.max_attempts {
        Some(most) => format!("attempt {} of {most}", entry.attempts),
        None => format!("{} attempts", entry.attempts),
    };
    match entry.settled_at {
        Some(at) => format!("{name} since {} ({attempt})", text::moment(at, now)),
        None => format!("{name} for {} ({attempt})", text::age(now.since(entry.created_at))),
    }
}

fn item(name: &str, at: Option<Timestamp>, now: Timestamp, what: &Markup) -> Markup {
    html! {
        li { span.when { (name.replace('_', " ")) } @if let Some(at) = at { time datetime=(at) title=(at) { (text::moment(at, now)) } } @else { span {} } span.what.break { (what) } }
    }
}

fn buttons(entry: &Entry) -> Markup {
    let verbs: &[(&str, &str)] = match entry.status {
        Status::Dead => &[("requeue", "Requeue"), ("discard", "Discard")],
        Status::Retrying => &[("retry", "Retry now"), ("cancel", "Cancel")],
        Status::Pending => &[("cancel", "Cancel")],
        _ => &[],
    };
    html! {
        @if !verbs.is_empty() {
            p.act {
                @for (verb, label) in verbs {
                    button.(if matches!(*verb, "discard" | "cancel") { "danger" } else { "primary" }) type="button" data-verb=(verb) data-ids=(entry.event_id) data-words={ "of type " (text::visible(&entry.event_type)) ", " (text::short_id(&entry.event_id.to_string())) } { (label) }
                }
            }
        }
    }
}

fn payload(entry: &Entry) -> Markup {
    let (id, route) = (entry.event_id.to_string(), entry.route.as_str());
    html! {
        h2 { "Payload" }
        p { (text::size(entry.payload.len())) " of " (text::visible(&entry.content_type)) ", hidden until asked for. "
            button type="button" data-payload=(id) data-payload-route=(route) aria-expanded="false" { "Show" } }
        pre.payload hidden dir="ltr" tabindex="0" {}
    }
}

fn details(entry: &Entry) -> Markup {
    let optional = [
        ("tenant", entry.tenant.clone()),
        ("correlation id", entry.correlation_id.clone()),
        ("causation id", entry.causation_id.clone()),
        ("occurred at", entry.occurred_at.map(|at| at.to_string())),
        ("saga or group", entry.group_id.clone()),
        ("clock stamp", entry.hlc.map(|hlc| hlc.raw().to_string())),
        ("max attempts", entry.max_attempts.map(|most| most.to_string())),
    ];
    html! {
        details {
            summary { "All columns and " (entry.headers.len()) @if entry.headers.len() == 1 { " header" } @else { " headers" } }
            dl.facts {
                dt { "sequence" } dd { (entry.seq) }
                dt { "fence" } dd { (entry.fence.0) }
                dt { "priority" } dd { (entry.priority) }
                dt { "crashes" } dd { (entry.crashes) }
                @for (name, value) in optional { @if let Some(value) = value { dt { (name) } dd.break { (text::visible(&value)) } } }
                @for (name, value) in &entry.headers { dt.break { "header " (text::visible(name)) } dd.break { (text::visible(value)) } }
            }
        }
    }
}
