//! The style, the script and the icon, from the binary.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;

/// Browsers ask again whether it changed after a while.
const CACHED: HeaderValue = HeaderValue::from_static("private, max-age=300");

fn asset(kind: &'static str, body: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, HeaderValue); 2] =
        [(header::CONTENT_TYPE, HeaderValue::from_static(kind)), (header::CACHE_CONTROL, CACHED)];
    (headers, body)
}

pub(crate) async fn style() -> impl IntoResponse {
    asset("text/css; charset=utf-8", include_str!("../assets/page.css"))
}

pub(crate) async fn script() -> impl IntoResponse {
    asset("text/javascript; charset=utf-8", include_str!("../assets/page.js"))
}

pub(crate) async fn icon() -> impl IntoResponse {
    asset("image/svg+xml", include_str!("../assets/icon.svg"))
}
