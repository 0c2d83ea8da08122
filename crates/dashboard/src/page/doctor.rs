//! What will hurt: the findings of a doctor, if this process has one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::html;
use pillarbox_core::port::Severity;

use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

pub(crate) async fn doctor(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let Some(findings) = &shared.options.findings else {
        return refused(
            &shared,
            &visitor,
            &Refusal::not_found("This process has no doctor. Run `pillarbox doctor`."),
        );
    };
    let Ok(_turn) = shared.doctor.acquire().await else {
        return refused(&shared, &visitor, &Refusal::bad("The doctor has stopped."));
    };
    let found = match findings.look().await {
        Ok(found) => found,
        Err(error) => return refused(&shared, &visitor, &error.into()),
    };
    let (fine, wrong): (Vec<_>, Vec<_>) = found.iter().partition(|finding| finding.severity == Severity::Ok);
    let frame = Frame::new(&shared, &visitor, "Doctor").here("/doctor");
    let page = frame.page(&html! {
        h1 { "Doctor" }
        @if wrong.is_empty() { p.lead { "Nothing was found that will hurt." } }
        @for finding in &wrong {
            section.finding {
                h2 {
                    (parts::mark(if finding.severity == Severity::Problem { Mark::Stuck } else { Mark::Retrying }))
                    " " (parts::words(&finding.reason))
                }
                p { (parts::words(&finding.next)) }
            }
        }
        @if !fine.is_empty() {
            details { summary { (fine.len()) " checks are in order" } ul { @for finding in &fine { li { (finding.check) ": " (finding.reason) } } } }
        }
    });
    page.into_response()
}
