//! Whether a request comes from our own page.

use axum::http::{HeaderMap, header};

/// Whether a browser says that this request comes from a page of the same origin. `None`: nothing says where it comes
/// from, so it is no browser of the last years.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> Option<bool> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return Some(site == "same-origin");
    }
    let origin = text(header::ORIGIN.as_str())?;
    let host = text(header::HOST.as_str()).unwrap_or_default();
    Some(origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(headers: &[(&'static str, &'static str)], expected: Option<bool>) {
        let map: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        assert_eq!(is_same_origin(&map), expected, "{headers:?}");
    }

    #[test]
    fn a_browser_tells_where_a_request_comes_from() {
        check(&[("sec-fetch-site", "same-origin")], Some(true));
        check(&[("sec-fetch-site", "same-site")], Some(false));
        check(&[("sec-fetch-site", "cross-site"), ("origin", "http://a"), ("host", "a")], Some(false));
        check(&[("origin", "http://a:8025"), ("host", "a:8025")], Some(true));
        check(&[("origin", "http://evil"), ("host", "a:8025")], Some(false));
        check(&[("origin", "null"), ("host", "a")], Some(false));
        check(&[("host", "a")], None);
    }
}
