//! `/livez` and `/readyz`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pillarbox_core::health::{Problem, Verdict};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Refusal;
use crate::options::{MetricsFormat, Sampled};
use crate::sampler::History;
use crate::shared::Shared;

/// One thing that is wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProblemJson {
    /// `database`, `tables`, `circuit`, `unrelayed`, `late`, `stuck_sagas`, `dead` or `paused`.
    kind: &'static str,
    route: Option<String>,
    /// What is wrong and what to do.
    message: String,
}

impl From<&Problem> for ProblemJson {
    fn from(problem: &Problem) -> Self {
        Self {
            kind: problem.kind.as_str(),
            route: problem.route.as_ref().map(ToString::to_string),
            message: problem.message(),
        }
    }
}

/// Whether this process should get work.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReadyJson {
    ready: bool,
    /// The verdict in a sentence.
    verdict: String,
    /// The problems that make it unready.
    causes: Vec<ProblemJson>,
    /// All other problems.
    problems: Vec<ProblemJson>,
}

/// The process lives and answers.
pub(crate) async fn livez() -> &'static str {
    "alive\n"
}

/// 200 while nothing stops deliveries, 503 with the causes while something does.
pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let snapshot = shared.first_look().await;
    let answer = ready(&snapshot.verdict, &shared);
    let status = if answer.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(answer)).into_response()
}

fn ready(verdict: &Verdict, shared: &Shared) -> ReadyJson {
    let stops = |problem: &&Problem| shared.options.unready.contains(&problem.kind);
    let (causes, problems): (Vec<_>, Vec<_>) = verdict.problems.iter().partition(stops);
    ReadyJson {
        ready: causes.is_empty(),
        verdict: verdict.sentence(),
        causes: causes.into_iter().map(ProblemJson::from).collect(),
        problems: problems.into_iter().map(ProblemJson::from).collect(),
    }
}

/// The metrics of this process, if it has any, in the format that the scraper reads.
pub(crate) async fn metrics(State(shared): State<Arc<Shared>>, asked: HeaderMap) -> Response {
    match &shared.options.metrics {
        Some(metrics) => {
            let (format, kind) = format(&asked);
            let snapshot = shared.first_look().await;
            let routes: Vec<_> = snapshot.routes.iter().map(|view| view.counts.clone()).collect();
            let rate = |(name, history): (&String, &History)| (name.clone(), history.now().went);
            let accepted = snapshot.consumers.iter().map(rate).collect();
            let sampled = Sampled::new(&routes, &snapshot, &accepted);
            let text = (metrics.0)(snapshot.lost.is_none().then_some(sampled), format);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        None => Refusal::not_found("this process has no metrics").into_response(),
    }
}

/// OpenMetrics for those who name it, and for browsers and others that take anything.
fn format(asked: &HeaderMap) -> (MetricsFormat, &'static str) {
    let accept = asked.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    if accept.contains("text/plain") && !accept.contains("application/openmetrics-text") {
        (MetricsFormat::Plain, "text/plain; version=0.0.4; charset=utf-8")
    } else {
        (MetricsFormat::OpenMetrics, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    }
}
