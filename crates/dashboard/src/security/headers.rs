//! The headers of every answer, and the time that an answer may take.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::error::Refusal;

/// Nothing but our own files: no inline script or style, no other site, no frame.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                                 connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action \
                                 'self'";
/// How long an answer may take, the stream of live updates aside.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Adds what a browser needs to know of every answer.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Gives up on an answer that takes too long.
pub(crate) async fn limit_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the database did not answer in time. Narrow the filter or try again",
        )
        .into_response(),
    }
}
