//! Running relays, their circuits and their leases.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use pillarbox_core::port::RelaySeen;

use crate::sampler::Snapshot;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};

pub(crate) async fn relays(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let snapshot = shared.first_look().await;
    let frame = Frame::new(&shared, &visitor, "Relays").here("/relays").live("relays", None);
    frame.page(&html! {
        h1 { "Relays" }
        div data-live="main" { (live(&shared, &snapshot)) }
    })
}

/// What changes with every look.
pub(super) fn live(shared: &Shared, snapshot: &Snapshot) -> Markup {
    if snapshot.relays.is_empty() {
        return html! { section.empty { p { "No relay was seen in the last hour. Start one:" } div.command { code { "pillarbox relay" } button.quiet type="button" data-copy="pillarbox relay" { "copy" } } } };
    }
    html! {
        table.relays data-rows="" {
            caption.hidden { "Relays" }
            thead {
                tr {
                    th scope="col" { "relay" }
                    th scope="col" { "route" }
                    th scope="col" { "circuit" }
                    th.number scope="col" { "in flight" }
                    th scope="col" { "mode" }
                    th.number scope="col" { "running for" }
                    th.number scope="col" { "last seen" }
                    th.number scope="col" { "announced until" }
                }
            }
            tbody {
                @for relay in &snapshot.relays {
                    @let now = relay.seen_at.saturating_add(relay.unseen_for);
                    tr data-key={ (relay.run.0) " " (relay.route) } {
                        th.break scope="row" { (parts::cut(&relay.owner, 60)) }
                        td.break data-label="route" { a href=(parts::route_path(shared, relay.route.as_str())) data-open="" { (parts::cut(relay.route.as_str(), 60)) } }
                        td.break data-label="circuit" { (circuit(relay)) }
                        td.number data-label="in flight" { (parts::number(relay.in_flight)) }
                        td data-label="mode" { (text::visible(&relay.mode)) ", " (text::visible(&relay.wake)) }
                        td.number data-label="running for" { (text::age(now.since(relay.started_at))) }
                        td.number data-label="last seen" { (text::age(relay.unseen_for)) " ago" }
                        td.number data-label="announced until" { (text::moment(relay.lease_until, now)) }
                    }
                }
            }
        }
        p.nothing { "A relay that stops takes its announcement back. One that is gone did not stop normally: what it had is delivered by another relay when its lease ends." }
    }
}

fn circuit(relay: &RelaySeen) -> Markup {
    if relay.is_gone() {
        return html! { (parts::state(Mark::Gone, "gone")) };
    }
    let Some(since) = relay.down_since.filter(|_| relay.is_down()) else {
        return html! { (parts::state(Mark::Moving, "closed")) };
    };
    let now = relay.seen_at.saturating_add(relay.unseen_for);
    html! {
        (parts::state(Mark::Stuck, relay.circuit.as_str())) " for " (text::age(now.since(since))) ", tried " (relay.outages) " times"
        @if let Some(reason) = &relay.reason { span.error-text { " " (parts::cut(&reason.to_string(), 200)) } }
    }
}

/// A relay in one line.
pub(super) fn line(relay: &RelaySeen) -> Markup {
    html! { p.relay-line { strong { (parts::cut(&relay.owner, 60)) } " " (circuit(relay)) " · " (text::count(relay.in_flight)) " in flight · seen " (text::age(relay.unseen_for)) " ago" } }
}
