//! Entries that match a filter, page by page. The filter reads as a sentence and stands in the address.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use pillarbox_core::{Entry, EventId, Standing, Status, Timestamp};
use serde::Deserialize;

use crate::api::{EntriesQuery, parse_sentence};
use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::heads::{Heads, arranged};
use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

/// A filter by parameters, or as a sentence.
#[derive(Deserialize)]
pub(crate) struct Asked {
    q: Option<String>,
    route: Option<String>,
    status: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    key: Option<String>,
    tenant: Option<String>,
    error: Option<String>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
}

impl Asked {
    fn query(self) -> EntriesQuery {
        let given = |value: Option<String>| value.filter(|value| !value.is_empty());
        EntriesQuery {
            route: given(self.route),
            status: given(self.status),
            event_type: given(self.event_type),
            key: given(self.key),
            tenant: given(self.tenant),
            error: given(self.error),
            since: given(self.since),
            until: given(self.until),
            cursor: given(self.cursor),
            limit: None,
        }
    }
}

pub(crate) async fn entries(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    axum::extract::Query(asked): axum::extract::Query<Asked>,
) -> Response {
    // A sentence becomes an address that can be shared.
    if let Some(sentence) = asked.q.as_deref() {
        let sentence = sentence.trim();
        if let Ok(id) = sentence.parse::<EventId>() {
            return Redirect::to(&parts::entry_path(&shared, id)).into_response();
        }
        return match parse_sentence(sentence) {
            Ok(query) => Redirect::to(&shared.path(&format!("/entries?{}", query.link()))).into_response(),
            Err(refusal) => refused(&shared, &visitor, &refusal),
        };
    }
    match shown(&shared, &visitor, &asked.query()).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn shown(shared: &Shared, visitor: &Visitor, query: &EntriesQuery) -> Result<Markup, Refusal> {
    let now = shared.clock.now();
    let filter = query.filter(now)?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let entries = shared.ports.admin.list(filter).await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|last| last.seq.to_string());
    let heads = Heads::of(shared, &entries).await;
    let sentence = query.sentence();
    let frame = Frame::new(shared, visitor, "Entries").here("/entries").query(sentence.clone());
    let path = |cursor: Option<String>| {
        shared.path(&format!("/entries?{}", EntriesQuery { cursor, ..query.clone() }.link()))
    };
    let beginning = query.cursor.as_ref().map(|_| path(None));
    let next = next.map(|cursor| path(Some(cursor)));
    Ok(frame.page(&html! {
        h1 { "Entries" @if !sentence.is_empty() { " " code { (text::visible(&sentence)) } } }
        (chips(shared, query))
        @if entries.is_empty() {
            (nothing(shared, query))
        } @else {
            (matching_actions(query))
            (table(shared, &entries, &heads, now))
            (parts::pages(beginning, next))
        }
    }))
}

/// One click for each status.
fn chips(shared: &Shared, query: &EntriesQuery) -> Markup {
    let any = EntriesQuery { status: None, cursor: None, ..query.clone() };
    html! {
        nav.chips aria-label="Status" {
            a href=(shared.path(&format!("/entries?{}", any.link()))) aria-current=[query.status.is_none().then_some("true")] { "any" }
            @for standing in Standing::ALL {
                @let name = standing.as_str();
                @let of = EntriesQuery { status: Some(name.to_owned()), ..any.clone() };
                a href=(shared.path(&format!("/entries?{}", of.link()))) aria-current=[(query.status.as_deref() == Some(name)).then_some("true")] {
                    (parts::mark(Mark::of_standing(standing))) (name.replace('_', " "))
                }
            }
        }
    }
}

/// What can be done with all entries that match, not only with those on this page.
fn matching_actions(query: &EntriesQuery) -> Markup {
    let filter = serde_json::to_string(&EntriesQuery { cursor: None, ..query.clone() }).unwrap_or_default();
    let words = format!("that match {}", query.sentence());
    let verbs: &[(&str, &str)] = match query.status.as_deref() {
        Some("dead") => &[("requeue", "Requeue all that match"), ("discard", "Discard all that match")],
        Some("retrying") => &[("retry", "Retry all now"), ("cancel", "Cancel all that match")],
        Some("pending") => &[("cancel", "Cancel all that match")],
        _ => &[],
    };
    html! {
        @if !verbs.is_empty() {
            p.act.all-actions {
                @for (verb, label) in verbs {
                    button.(if matches!(*verb, "discard" | "cancel") { "danger" } else { "plain-button" }) type="button" data-verb=(verb) data-filter=(filter) data-words=(words) { (label) }
                }
            }
        }
    }
}

fn nothing(shared: &Shared, query: &EntriesQuery) -> Markup {
    html! {
        section.empty {
            @if query.status.as_deref() == Some("dead") { p { "No dead entries match. Nothing was given up." } }
            @else { p { "No entries match." } }
            @if !query.link().is_empty() { p { a href=(shared.path("/entries")) { "Show all entries" } } }
        }
    }
}

/// Entries as rows that can be selected and opened.
fn table(shared: &Shared, entries: &[Entry], heads: &Heads, now: Timestamp) -> Markup {
    html! {
        table.entries data-rows="" {
            caption.hidden { "Entries" }
            thead {
                tr {
                    th.check scope="col" { input type="checkbox" data-select-all="" aria-label="Select all rows of this page"; }
                    th scope="col" { "state" }
                    th scope="col" { "time" }
                    th scope="col" { "type" }
                    th scope="col" { "key" }
                    th.number scope="col" { "attempts" }
                    th scope="col" { "reason" }
                    th.number scope="col" { "age" }
                }
            }
            tbody { @for (entry, is_behind) in arranged(entries) { (row(shared, entry, is_behind, heads, now)) } }
        }
    }
}

fn row(shared: &Shared, entry: &Entry, is_behind: bool, heads: &Heads, now: Timestamp) -> Markup {
    let standing = entry.standing();
    let at = entry.settled_at.unwrap_or(entry.created_at);
    html! {
        tr.(if is_behind { "behind" } else { "" }) data-id=(entry.event_id) data-status=(standing.as_str()) {
            td.check { input type="checkbox" data-select="" aria-label={ "Select " (text::short_id(&entry.event_id.to_string())) }; }
            td data-label="state" { (parts::state(Mark::of_standing(standing), &standing.as_str().replace('_', " "))) }
            td data-label="time" { time datetime=(at) title=(at) { (text::moment(at, now)) } }
            td.break data-label="type" { a.name href=(parts::entry_path(shared, entry.event_id)) data-open="" { (parts::cut(&entry.event_type, 80)) } span.route-of { (parts::cut(entry.route.as_str(), 40)) } }
            td.break data-label="key" { @if let Some(key) = &entry.key { code { (parts::cut(key, 40)) } } @else { span.zero { "–" } } }
            td.number data-label="attempts" { (entry.attempts) }
            td.break.reason data-label="reason" { (reason(shared, entry, heads)) }
            td.number data-label="age" { (text::age(now.since(entry.created_at))) }
        }
    }
}

/// Why an entry stands as it does.
fn reason(shared: &Shared, entry: &Entry, heads: &Heads) -> Markup {
    html! {
        @match (heads.why(shared, entry), &entry.last_error) {
            (Some(why), _) => { (why) }
            (None, Some(error)) if entry.status != Status::Delivered => { (parts::error(error)) }
            _ => {}
        }
    }
}
