//! The overview: every route in one row, those that need somebody first.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use pillarbox_core::health::RouteState;
use pillarbox_core::port::RelaySeen;
use pillarbox_core::{SagaStatus, Status};

use crate::sampler::{RouteView, Snapshot};
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::spark::spark;

/// The most relays that are named.
const RELAYS_NAMED_MAX: usize = 12;
/// The most routes that are shown. The others are counted.
const ROUTES_SHOWN_MAX: usize = 500;

pub(crate) async fn overview(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let snapshot = shared.first_look().await;
    let frame = Frame::new(&shared, &visitor, "Overview").here("/").live("overview", None);
    frame.page(&html! {
        h1.quiet-title { "Overview" }
        div data-live="main" { (live(&shared, &snapshot)) }
    })
}

/// What changes with every look.
pub(super) fn live(shared: &Shared, snapshot: &Snapshot) -> Markup {
    if snapshot.routes.is_empty() && snapshot.lost.is_none() {
        return first_steps();
    }
    html! {
        div.(if snapshot.lost.is_some() { "stale" } else { "fresh" }) {
            table.routes data-rows="" {
                caption.hidden { "Routes" }
                thead {
                    tr {
                        th scope="col" { "route" }
                        th scope="col" { "state" }
                        th.number scope="col" title="events per second that were staged or requeued" { "in/s" }
                        th.number scope="col" title="events per second that were delivered" { "out/s" }
                        th scope="col" { "15 min" }
                        th.number scope="col" title="how long the oldest due event has waited" { "oldest" }
                        th.number scope="col" { "waiting" }
                        th.number scope="col" { "retrying" }
                        th.number scope="col" { "blocked" }
                        th.number scope="col" { "dead" }
                    }
                }
                tbody {
                    @for view in snapshot.routes.iter().take(ROUTES_SHOWN_MAX) { (row(shared, view)) }
                }
            }
            @if let Some(rest) = snapshot.routes.get(ROUTES_SHOWN_MAX..).filter(|rest| !rest.is_empty()) {
                (more(rest))
            }
            (summary(shared, snapshot))
        }
    }
}

/// How many routes are not shown, and how many of them need an operator.
fn more(rest: &[RouteView]) -> Markup {
    let calm = |view: &&RouteView| matches!(view.state, RouteState::Moving | RouteState::Idle);
    let others = rest.len() - rest.iter().filter(calm).count();
    html! {
        p.nothing {
            (text::count(rest.len() as u64)) " more routes are not shown here. "
            @if others == 0 { "All of them move or are idle." }
            @else { span.loud { (text::count(others as u64)) " of them are stuck, late or paused, or have dead events." } " The API lists every route at " code { "/api/v1/routes" } "." }
        }
    }
}

fn row(shared: &Shared, view: &RouteView) -> Markup {
    let (counts, now) = (&view.counts, view.history.now());
    let route = counts.route.as_str();
    let path = parts::route_path(shared, route);
    let list = |status: &str| {
        shared.path(&format!("/entries?route={}&status={status}", crate::security::urlencode(route)))
    };
    html! {
        tr data-key=(route) {
            th scope="row" { a.name href=(path) data-open="" title=(text::visible(route)) { (text::visible(route)) } }
            td data-label="state" { (parts::state(Mark::of_route(view.state), view.state.words())) }
            td.number data-label="in/s" { (text::rate(now.came)) }
            td.number data-label="out/s" { (text::rate(now.went)) }
            td.picture data-label="15 min" { (spark(&view.history)) }
            td.number data-label="oldest" { (parts::age_or_dash(counts.oldest_due_age)) }
            td.number data-label="waiting" { (parts::number(counts.of(Status::Pending) + counts.of(Status::InFlight))) }
            td.number data-label="retrying" { (linked(counts.of(Status::Retrying), &list("retrying"))) }
            td.number data-label="blocked" { (linked(counts.blocked, &list("blocked"))) }
            td.number.(if counts.of(Status::Dead) > 0 { "loud" } else { "" }) data-label="dead" { (linked(counts.of(Status::Dead), &list("dead"))) }
        }
    }
}

fn linked(count: u64, path: &str) -> Markup {
    html! { @if count == 0 { span.zero { "0" } } @else { a href=(path) { (text::count(count)) } } }
}

fn summary(shared: &Shared, snapshot: &Snapshot) -> Markup {
    let sagas = &snapshot.sagas;
    let accepted: f64 = snapshot.consumers.values().map(|history| history.now().went).sum();
    html! {
        dl.summary {
            dt { a href=(shared.path("/relays")) { "relays" } }
            dd {
                @if snapshot.relays.is_empty() { "none is running" }
                @for (place, relay) in snapshot.relays.iter().take(RELAYS_NAMED_MAX).enumerate() {
                    @if place > 0 { " · " }
                    (named(relay))
                }
                @if snapshot.relays.len() > RELAYS_NAMED_MAX { " · " (snapshot.relays.len() - RELAYS_NAMED_MAX) " more" }
            }
            dt { a href=(shared.path("/sagas")) { "sagas" } }
            dd {
                (text::count(sagas.of(SagaStatus::Running))) " running · "
                @let stuck = sagas.of(SagaStatus::Blocked) + sagas.of(SagaStatus::CompensationFailed);
                span.(if stuck > 0 { "loud" } else { "" }) { (text::count(stuck)) " wait for an operator" } " · "
                (text::count(sagas.of(SagaStatus::Compensating))) " compensating"
                @if sagas.overdue > 0 { " · " span.loud { (text::count(sagas.overdue)) " overdue" } }
            }
            dt { a href=(shared.path("/inbox")) { "inbox" } }
            dd {
                @if snapshot.consumers.is_empty() { "no consumer accepted anything in 15 minutes" }
                @else { (text::rate(accepted)) " accepted per second by " (snapshot.consumers.len()) @if snapshot.consumers.len() == 1 { " consumer" } @else { " consumers" } }
            }
        }
    }
}

fn named(relay: &RelaySeen) -> Markup {
    let what = if relay.is_gone() {
        format!("gone {}", text::age(relay.unseen_for))
    } else if relay.is_down() {
        relay.circuit.as_str().replace("open", "waits for its destination")
    } else {
        format!("{} in flight", text::count(relay.in_flight))
    };
    html! { span.(if relay.is_gone() || relay.is_down() { "loud" } else { "" }) { (parts::cut(&relay.owner, 40)) " (" (parts::cut(relay.route.as_str(), 40)) ") " (what) } }
}

fn first_steps() -> Markup {
    html! {
        section.empty {
            h2 { "No events yet" }
            p { "Stage a first event, and relay it to a file:" }
            (parts::command("pillarbox stage --route orders --type order.placed --key o-1 --payload '{\"id\":1}'"))
            (parts::command("pillarbox relay --route orders --to file:orders.ndjson"))
            p { "It appears here within a second." }
        }
    }
}
