//! `Retry-After`: how long the endpoint asks us to wait, in seconds or until a date.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use pillarbox_core::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// The longest wait that an endpoint may ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Anything shorter is no wish to wait; the route's own backoff is better then.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// The wait, at most [`RETRY_AFTER_MAX`]; `None` where there is none, or it cannot be read, or is over.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // More digits than fit are a long wait as well.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let until = OffsetDateTime::parse(text, &Rfc2822).ok()?;
        Timestamp::try_from(until).ok()?.since(now)
    };
    (wait >= RETRY_AFTER_MIN).then(|| wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, wanted_seconds: Option<u64>) {
        let now: Timestamp = "2026-11-15T08:00:00Z".parse().unwrap();
        let headers = [(RETRY_AFTER, value.parse().unwrap())].into_iter().collect();
        assert_eq!(retry_after(&headers, now), wanted_seconds.map(Duration::from_secs), "{value}");
    }

    #[test]
    fn seconds_and_dates_are_read_and_capped() {
        check("1", Some(1));
        check(" 120 ", Some(120));
        check("3601", Some(3600));
        check("99999999999999999999999", Some(3600));
        check("Sun, 15 Nov 2026 08:02:00 GMT", Some(120));
        check("Mon, 16 Nov 2026 08:00:00 GMT", Some(3600));
    }

    #[test]
    fn what_is_no_wait_leaves_it_to_the_backoff() {
        for value in
            ["0", "", "-1", "1.5", "soon", "Sun, 15 Nov 2026 07:59:59 GMT", "Sun, 99 Nov 2026 08:00:00 GMT"]
        {
            check(value, None);
        }
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::MIN), None);
    }
}
