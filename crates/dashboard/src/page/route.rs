//! One route: its sentence, its flow, its waits, its failures, and the dead entries that hold others back.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::health::RouteState;
use pillarbox_core::port::{CountBy, CountByRequest, CountGroup, Filter, RelaySeen};
use pillarbox_core::{RouteName, Status, Timestamp};

use crate::error::Refusal;
use crate::sampler::{RouteView, Snapshot};
use crate::security::{Visitor, urlencode};
use crate::shared::Shared;
use crate::text;

use super::lanes::{self, RouteQuery};
use super::layout::Frame;
use super::parts::{self, Mark};
use super::spark::spark;
use super::{refused, waits};

/// The most groups of failures that are shown.
const GROUPS_SHOWN_MAX: u32 = 20;

pub(crate) async fn route(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Path(route): Path<String>,
    Query(query): Query<RouteQuery>,
) -> Response {
    match shown(&shared, &visitor, route, &query).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn shown(
    shared: &Shared,
    visitor: &Visitor,
    route: String,
    query: &RouteQuery,
) -> Result<Markup, Refusal> {
    let name = RouteName::new(route)?;
    let snapshot = shared.first_look().await;
    let view = snapshot
        .route(&name)
        .ok_or_else(|| Refusal::not_found(format!("no event was staged on route {name} yet")))?;
    let failing = async |status: Status| {
        if view.counts.of(status) == 0 {
            return Ok(vec![]);
        }
        let filter = Filter::default().route(name.clone()).status(status).limit(GROUPS_SHOWN_MAX);
        shared.ports.admin.count_by(CountByRequest { filter, by: CountBy::TypeAndError }).await
    };
    // Each has a connection of its own, so that the slowest one is all that somebody waits for. Without waits and lanes the
    // rest is still worth showing.
    let (dead, retrying, waited, lanes) = tokio::join!(
        failing(Status::Dead),
        failing(Status::Retrying),
        shared.waits(&name),
        lanes::section(shared, &name, query),
    );
    let (dead, retrying) = (dead?, retrying?);
    let configured = shared.routes();
    let facts = configured.get(&name);
    let frame =
        Frame::new(shared, visitor, text::visible(name.as_str())).live("route", Some(name.to_string()));
    Ok(frame.page(&html! {
        div data-live="main" { (live(shared, &snapshot, &name)) }
        div.columns {
            section {
                h2 { "Wait" }
                (waits::shown(&waited))
            }
            section {
                h2 { "Failures" }
                @if dead.is_empty() && retrying.is_empty() { (parts::nothing("No entry of this route has failed and waits.")) }
                (groups(shared, &name, "dead", &dead))
                (groups(shared, &name, "retrying", &retrying))
            }
            section {
                h2 { "Settings" }
                @match facts {
                    Some(facts) => { dl.facts { @for (fact, value) in facts { dt { (fact) } dd.break { (text::visible(value)) } } } }
                    None => { (parts::nothing("This process does not relay the route, so it does not know its settings. `pillarbox config show` prints them where it is relayed.")) }
                }
            }
        }
        (lanes)
    }))
}

fn groups(shared: &Shared, route: &RouteName, status: &str, groups: &[CountGroup]) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    html! {
        table.plain {
            caption { (status) }
            tbody {
                @for group in groups {
                    @let (event_type, error) = group.pair().unwrap_or_default();
                    @let path = format!("/entries?route={}&status={status}&type={}&error={}", urlencode(route.as_str()), urlencode(event_type), urlencode(error.unwrap_or_default()));
                    tr {
                        td.break { a href=(shared.path(&path)) { (parts::cut(event_type, 80)) } }
                        td.break { (error.unwrap_or("no error yet")) }
                        td.number { (text::count(group.entries)) }
                    }
                }
            }
        }
    }
}

/// What changes with every look.
pub(super) fn live(shared: &Shared, snapshot: &Snapshot, name: &RouteName) -> Markup {
    let Some(view) = snapshot.route(name) else {
        return parts::nothing("This route has no entries any more.");
    };
    let (counts, now) = (&view.counts, view.history.now());
    let relays: Vec<_> = snapshot.relays.iter().filter(|relay| relay.route == *name).collect();
    let list =
        |status: &str| shared.path(&format!("/entries?route={}&status={status}", urlencode(name.as_str())));
    html! {
        div.(if snapshot.lost.is_some() { "stale" } else { "fresh" }) {
            div.title-line {
                h1.break title=(text::visible(name.as_str())) { (text::visible(name.as_str())) }
                (parts::pause_button(name, counts.paused.is_some(), "Pause", "Resume"))
            }
            p.sentence { (parts::state(Mark::of_route(view.state), view.state.words())) " " (sentence(view, &relays)) }
            @if let Some(pause) = &counts.paused { p.notice { (parts::paused(pause)) } }
            div.figures {
                (figure("in/s", &text::rate(now.came), None))
                (figure("out/s", &text::rate(now.went), None))
                (figure("oldest", &parts::age_or_dash(counts.oldest_due_age), None))
                (figure("pending", &text::count(counts.of(Status::Pending)), Some(list("pending"))))
                (figure("in flight", &text::count(counts.of(Status::InFlight)), Some(list("in_flight"))))
                (figure("retrying", &text::count(counts.of(Status::Retrying)), Some(list("retrying"))))
                (figure("blocked", &text::count(counts.blocked), Some(list("blocked"))))
                (figure("dead", &text::count(counts.of(Status::Dead)), Some(list("dead"))))
                (figure("delivered", &text::counted(counts, Status::Delivered), Some(list("delivered"))))
            }
            div.big-picture { (spark(&view.history)) p.legend { span.came { "in, above" } " · " span.went { "out, below" } " · the last 15 minutes" } }
            @if !counts.heads.is_empty() {
                h2 { "Blocked behind dead events" }
                ul.heads {
                    @for head in &counts.heads {
                        li {
                            (parts::mark(Mark::Dead)) a href=(parts::entry_path(shared, head.event_id)) { (text::short_id(&head.event_id.to_string())) }
                            " of key " code { (parts::cut(&head.key, 60)) }
                            @if let Some(error) = view.died_of.get(&head.event_id) { span.error-text { " died of " (parts::error(error)) } }
                            ul { li { (parts::mark(Mark::Blocked)) a href=(shared.path(&format!("/entries?route={}&status=blocked&key={}", urlencode(name.as_str()), urlencode(&head.key)))) { (text::events(head.blocked)) " behind it" } } }
                        }
                    }
                }
            }
            (outages(view, snapshot.at))
            h2 { "Relays" }
            @if relays.is_empty() { (parts::nothing("No relay of this route was seen in the last hour.")) }
            @for relay in relays { (super::relays::line(relay)) }
        }
    }
}

/// When the destination was down.
fn outages(view: &RouteView, now: Timestamp) -> Markup {
    let mut outages = view.outages.newest().peekable();
    html! {
        @if outages.peek().is_some() {
            h2 { "When the destination was down" }
            ul.outages {
                @for outage in outages {
                    li {
                        (text::moment(outage.from, now)) " "
                        @match outage.until {
                            Some(until) => { "for " (text::age(until.since(outage.from))) }
                            None => { strong { "until now" } ", for " (text::age(now.since(outage.from))) }
                        }
                        @if let Some(why) = &outage.reason { ": " (parts::cut(why, 200)) }
                    }
                }
            }
        }
    }
}

fn figure(name: &str, value: &str, path: Option<String>) -> Markup {
    html! {
        div.figure {
            span.label { (name) }
            @match path { Some(path) if value != "0" => { a.value href=(path) { (value) } } _ => { span.value.(if matches!(name, "in/s" | "out/s" | "oldest") { "calm-figure" } else { "" }) { (value) } } }
        }
    }
}

fn sentence(view: &RouteView, relays: &[&RelaySeen]) -> String {
    let counts = &view.counts;
    let waiting = text::events(counts.undrained());
    match view.state {
        RouteState::CircuitOpen => {
            format!("Its destination does not answer. {waiting} wait, and no attempt is spent on them.")
        }
        RouteState::Unrelayed => format!("{waiting} wait, and no relay is running. Start one."),
        RouteState::Late => {
            format!("{waiting} wait although {} relays run. If this persists, start more.", relays.len())
        }
        RouteState::Blocked => format!(
            "{} wait behind dead events of their keys. Requeue or discard the dead ones.",
            text::events(counts.blocked)
        ),
        RouteState::HasDead => {
            format!("{} given up. The others are delivered.", text::events(counts.of(Status::Dead)))
        }
        RouteState::Paused => format!("Nothing is delivered until it is resumed. {waiting} wait."),
        RouteState::Moving => format!("{waiting} on their way."),
        _ => "Nothing waits.".to_owned(),
    }
}
