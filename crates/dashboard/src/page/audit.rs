//! The newest records of the audit trail.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::html;
use pillarbox_core::{AuditKind, AuditRecord, Timestamp};

use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

/// How many records are shown.
const SHOWN_MAX: u32 = 200;

pub(crate) async fn audit(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let records = match shared.ports.admin.audit(SHOWN_MAX).await {
        Ok(records) => records,
        Err(error) => return refused(&shared, &visitor, &error.into()),
    };
    let now = shared.clock.now();
    let frame = Frame::new(&shared, &visitor, "Audit").here("/audit");
    let page = frame.page(&html! {
        h1 { "Audit" }
        @if records.is_empty() {
            section.empty { p { "Nothing was given up, changed by hand or purged yet." } }
        } @else {
            p.lead { "The newest " (records.len()) " records, newest first. `pillarbox show` and `pillarbox saga audit` read the rest." }
            table.audit data-rows="" {
                caption.hidden { "Audit records" }
                thead { tr { th scope="col" { "time" } th scope="col" { "what" } th scope="col" { "who" } th scope="col" { "of" } th scope="col" { "detail" } } }
                tbody { @for record in records.iter().rev() { (row(&shared, record, now)) } }
            }
        }
    });
    page.into_response()
}

fn row(shared: &Shared, record: &AuditRecord, now: Timestamp) -> maud::Markup {
    html! {
        tr data-key=(record.seq) {
            td data-label="time" { time datetime=(record.at) title=(record.at) { (text::moment(record.at, now)) } }
            td data-label="what" { (parts::state(mark(record.kind), &record.kind.as_str().replace('_', " "))) }
            td.break data-label="who" { (parts::cut(&record.actor, 60)) }
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
