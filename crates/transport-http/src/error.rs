//! The one table: what an answer, or no answer, means for the entry.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | 2xx | confirmed | the standard's only success |
//! | 429, 503 | busy, until `Retry-After` where given | the endpoint asks to be left alone: no message's fault |
//! | 502, 504 | busy, until `Retry-After` where given | a gateway without the service behind it |
//! | 408, 425, 500, other 5xx | failed, after `Retry-After` where given | this message, later |
//! | 1xx, 3xx, anything else | failed | redirects are never followed: a redirect could lead into a private network |
//! | 413 | rejected `too_large` | the same bytes are too many next time |
//! | 400, 405, 409, 415, 422, 431, other 4xx | rejected | the endpoint read this message and will not have it |
//! | 401, 403, 404 | down | wrong key or wrong URL: it hits every message, and none must die of it |
//! | 410 | down `gone`, and nothing more is sent | the endpoint wants no more webhooks; nothing is lost meanwhile |
//! | 401, 403, 404, 410, 429, 502, 503, 504 where it is about one message | failed; 410 rejected | see [`About`] |
//! | no address, refused address, no connection, TLS failed, not connected in time | down | nothing was sent |
//! | no answer in time, connection lost, an answer that is not HTTP | unknown | it may have been read |
//!
//! Outcomes name the host and never the path, which may hold a token, nor anything of the answer's text.

use std::io::ErrorKind;
use std::time::Duration;

use http::StatusCode;
use pillarbox_core::{Failure, FailureKind, Outcome};

/// Whether a refusal with 401, 403, 404, 410, 429, 502, 503 or 504 says something of the endpoint or of one message.
///
/// It is about the message where entries fill places in the path, because each path is an endpoint of its own then.
/// 401, 403, 404, 502 and 504 are also about the message where the endpoint confirmed another one just before: a message
/// may crash the service, or keep it busy for too long, and the gateway says no more than that. 429 and 503 are the
/// endpoint's own words about itself. So one poisonous message of a working endpoint dies
/// of its attempts instead of holding up the route, and a wrong key or URL holds up the route and lets nothing die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Endpoint,
    Message,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The host's name could not be looked up, or has no address.
    Unresolved(std::io::Error),
    /// The host has an address that webhooks may not go to; the text says what would allow it.
    Refused(String),
    /// No address could be connected to.
    Unconnected(std::io::Error),
    /// Not connected in time.
    ConnectTimeout(Duration),
    /// The certificate is not right, or they do not understand each other.
    Tls(std::io::Error),
    /// The connection was closed before anything was sent.
    Unsent(hyper::Error),
    /// The connection was lost after something was sent.
    Lost(hyper::Error),
    /// No answer in time.
    Timeout(Duration),
}

/// The outcome of an answer.
pub(crate) fn answered(
    endpoint: &impl std::fmt::Display,
    status: StatusCode,
    retry_after: Option<Duration>,
    about: About,
) -> Outcome {
    let code = format!("http_{}", status.as_u16());
    let text = format!("{endpoint} answered {}", status.as_u16());
    match (status.as_u16(), about) {
        (200..=299, _) => Outcome::Confirmed,
        (410, About::Endpoint) => Outcome::down(
            "gone",
            format!(
                "{text}: the endpoint wants no more webhooks. Nothing is sent to it until the relay is \
                 restarted"
            ),
        ),
        (410, About::Message) => Outcome::rejected("gone", text),
        (401 | 403, About::Endpoint) => {
            Outcome::down(code, format!("{text}: check that the receiver has the secret of this route"))
        }
        (404, About::Endpoint) => Outcome::down(code, format!("{text}: check the URL of this route")),
        (401 | 403 | 404, About::Message) => Outcome::failed(code, text),
        (429 | 502..=504, About::Endpoint) => {
            Outcome::Busy { failure: Failure::new(FailureKind::Down, code, text), retry_after }
        }
        (408 | 425 | 429 | 500..=599, _) => {
            Outcome::Failed { failure: Failure::new(FailureKind::Failed, code, text), retry_after }
        }
        (300..=399, _) => Outcome::failed("redirect", format!("{text}: redirects are not followed")),
        (413, _) => Outcome::rejected("too_large", text),
        (400..=499, _) => Outcome::rejected(code, text),
        _ => Outcome::failed(code, text),
    }
}

/// The outcome of no answer.
pub(crate) fn unanswered(endpoint: &impl std::fmt::Display, trouble: &Trouble) -> Outcome {
    match trouble {
        Trouble::Unresolved(error) => Outcome::down("dns", format!("{endpoint}: no address found: {error}")),
        Trouble::Refused(why) => Outcome::down("address_refused", why),
        Trouble::Unconnected(error) => {
            Outcome::down(unconnected(error.kind()), format!("{endpoint}: {error}"))
        }
        Trouble::ConnectTimeout(limit) => {
            Outcome::down("connect_timeout", format!("{endpoint}: could not connect within {limit:?}"))
        }
        Trouble::Tls(error) => Outcome::down("tls", format!("{endpoint}: TLS failed: {error}")),
        Trouble::Unsent(error) => Outcome::down(
            "connection_closed",
            format!("{endpoint}: the connection closed before anything was sent: {error}"),
        ),
        Trouble::Lost(error) if error.is_parse() => {
            Outcome::unknown("bad_answer", format!("{endpoint}: the answer is not HTTP: {error}"))
        }
        Trouble::Lost(error) => {
            Outcome::unknown("connection_lost", format!("{endpoint}: the connection was lost: {error}"))
        }
        Trouble::Timeout(limit) => {
            Outcome::unknown("timeout", format!("{endpoint}: no answer within {limit:?}"))
        }
    }
}

fn unconnected(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectionRefused => "refused",
        ErrorKind::TimedOut => "connect_timeout",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "unreachable",
        _ => "unconnected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, about: About, wanted: &str) {
        let wait = Some(Duration::from_secs(7));
        let outcome = answered(&"https://h", StatusCode::from_u16(status).unwrap(), wait, about);
        assert_eq!(shown(&outcome), wanted, "{status}");
    }

    fn shown(outcome: &Outcome) -> String {
        match outcome {
            Outcome::Confirmed | Outcome::ConfirmedWith(_) => "confirmed".into(),
            Outcome::Parked { after } => format!("parked for {after:?}"),
            Outcome::Failed { failure, retry_after: Some(wait) } => {
                format!("failed {} after {wait:?}", failure.code())
            }
            Outcome::Busy { failure, retry_after } => {
                let wait = retry_after.map(|wait| format!(" until {wait:?}")).unwrap_or_default();
                format!("busy {}{wait}", failure.code())
            }
            other => {
                let failure = other.failure().unwrap();
                format!("{} {}", failure.kind.as_str(), failure.code())
            }
        }
    }

    #[test]
    fn every_status_has_its_row() {
        for status in 200..=299 {
            check(status, About::Endpoint, "confirmed");
        }
        for status in [408, 425, 500, 501, 505, 599] {
            check(status, About::Endpoint, &format!("failed http_{status} after 7s"));
        }
        for status in [429, 502, 503, 504] {
            check(status, About::Endpoint, &format!("busy http_{status} until 7s"));
            check(status, About::Message, &format!("failed http_{status} after 7s"));
        }
        for status in [300, 301, 302, 303, 304, 307, 308, 399] {
            check(status, About::Endpoint, "failed redirect");
        }
        for status in [100, 101, 199, 600, 999] {
            check(status, About::Endpoint, &format!("failed http_{status}"));
        }
        for status in [400, 402, 405, 406, 409, 411, 414, 415, 422, 431, 451, 499] {
            check(status, About::Endpoint, &format!("rejected http_{status}"));
        }
        check(413, About::Endpoint, "rejected too_large");
    }

    #[test]
    fn a_refusal_of_the_endpoint_spends_no_attempt_and_one_of_a_message_does() {
        for status in [401, 403, 404] {
            check(status, About::Endpoint, &format!("down http_{status}"));
            check(status, About::Message, &format!("failed http_{status}"));
        }
        check(410, About::Endpoint, "down gone");
        check(410, About::Message, "rejected gone");
    }

    #[test]
    fn no_answer_is_down_before_and_unknown_after_something_was_sent() {
        let io = |kind: ErrorKind| std::io::Error::from(kind);
        let second = Duration::from_secs(1);
        for (trouble, wanted) in [
            (Trouble::Unresolved(io(ErrorKind::NotFound)), "down dns"),
            (Trouble::Refused("not public".into()), "down address_refused"),
            (Trouble::Unconnected(io(ErrorKind::ConnectionRefused)), "down refused"),
            (Trouble::Unconnected(io(ErrorKind::TimedOut)), "down connect_timeout"),
            (Trouble::Unconnected(io(ErrorKind::HostUnreachable)), "down unreachable"),
            (Trouble::Unconnected(io(ErrorKind::NetworkUnreachable)), "down unreachable"),
            (Trouble::Unconnected(io(ErrorKind::ConnectionReset)), "down unconnected"),
            (Trouble::ConnectTimeout(second), "down connect_timeout"),
            (Trouble::Tls(io(ErrorKind::InvalidData)), "down tls"),
            (Trouble::Timeout(second), "unknown timeout"),
        ] {
            assert_eq!(shown(&unanswered(&"https://h", &trouble)), wanted);
        }
    }
}
