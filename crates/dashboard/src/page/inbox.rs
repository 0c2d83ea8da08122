//! Consumers that accepted events lately.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};

use crate::sampler::Snapshot;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::spark::spark;

pub(crate) async fn inbox(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Markup {
    let snapshot = shared.first_look().await;
    let frame = Frame::new(&shared, &visitor, "Inbox").here("/inbox").live("inbox", None);
    frame.page(&html! {
        h1 { "Inbox" }
        p.lead { "Events that consumers of this database accepted for the first time. Duplicates leave no trace in it, so they are not counted here." }
        div data-live="main" { (live(&snapshot)) }
    })
}

/// What changes with every look.
pub(super) fn live(snapshot: &Snapshot) -> Markup {
    if snapshot.consumers.is_empty() {
        return html! { section.empty { p { "No consumer accepted anything in the last 15 minutes." } } };
    }
    html! {
        table.consumers data-rows="" {
            caption.hidden { "Consumers" }
            thead { tr { th scope="col" { "consumer" } th.number scope="col" { "accepted/s" } th scope="col" { "15 min" } } }
            tbody {
                @for (name, history) in &snapshot.consumers {
                    tr data-key=(name) {
                        th.break scope="row" { (text::visible(name)) }
                        td.number data-label="accepted/s" { (text::rate(history.now().went)) }
                        td.picture data-label="15 min" { (spark(history)) }
                    }
                }
            }
        }
    }
}
