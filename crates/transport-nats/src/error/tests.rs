//! One test per row of the table that needs no server; the integration tests provoke the rows on a real one.

use async_nats::jetstream::Error as Refusal;
use pillarbox_core::FailureKind;

use super::*;

const SUBJECT: &str = "orders.placed";

fn refusal(status: usize, code: u64, description: &str) -> Refusal {
    let json = format!(r#"{{"code":{status},"err_code":{code},"description":{description:?}}}"#);
    serde_json::from_str(&json).unwrap()
}

fn check(outcome: Outcome, kind: FailureKind, code: &str, named: &str) {
    let Some(failure) = outcome.failure() else { panic!("{outcome:?}") };
    assert_eq!((failure.kind, failure.code()), (kind, code));
    assert!(failure.text().contains(named), "{failure}");
}

fn check_refusal(status: usize, code: u64, description: &str, kind: FailureKind, name: &str) {
    let error = PublishError::with_source(PublishErrorKind::Other, refusal(status, code, description));
    check(unconfirmed(&error, SUBJECT), kind, name, description);
}

fn check_publish(kind: PublishErrorKind, expect: FailureKind, code: &str, named: &str) {
    check(unconfirmed(&PublishError::new(kind), SUBJECT), expect, code, named);
}

#[test]
fn no_stream_for_the_subject_is_down_and_named() {
    check_publish(PublishErrorKind::StreamNotFound, FailureKind::Down, "no_stream", SUBJECT);
}

#[test]
fn another_stream_than_the_expected_one_is_down() {
    check_refusal(400, 10060, "expected stream does not match", FailureKind::Down, "wrong_stream");
}

#[test]
fn a_sealed_stream_is_down() {
    check_refusal(400, 10109, "invalid operation on sealed stream", FailureKind::Down, "sealed");
}

#[test]
fn a_full_stream_or_subject_costs_no_attempt() {
    check_refusal(503, 10077, "maximum messages exceeded", FailureKind::Down, "stream_full");
    check_refusal(503, 10077, "maximum bytes exceeded", FailureKind::Down, "stream_full");
    for description in ["maximum messages exceeded", "maximum messages per subject exceeded"] {
        let outcome = refused(&refusal(503, 10077, description), SUBJECT);
        assert!(matches!(outcome, Outcome::Busy { retry_after: None, .. }), "{outcome:?}");
    }
    check_refusal(503, 10077, "maximum messages per subject exceeded", FailureKind::Down, "subject_full");
}

#[test]
fn a_server_out_of_resources_or_without_a_leader_is_down() {
    check_refusal(503, 10023, "insufficient resources", FailureKind::Down, "js_10023");
    check_refusal(500, 10047, "insufficient storage resources available", FailureKind::Down, "js_10047");
    check_refusal(503, 10008, "JetStream system temporarily unavailable", FailureKind::Down, "js_10008");
    check_refusal(429, 10167, "too many requests", FailureKind::Down, "js_10167");
}

#[test]
fn jetstream_that_is_off_is_down() {
    check_refusal(503, 10076, "JetStream not enabled", FailureKind::Down, "not_enabled");
    check_refusal(503, 10039, "JetStream not enabled for account", FailureKind::Down, "not_enabled");
}

#[test]
fn what_is_too_large_is_rejected() {
    check_refusal(400, 10054, "message size exceeds maximum allowed", FailureKind::Rejected, "too_large");
    check_refusal(
        400,
        10097,
        "header size exceeds maximum allowed of 64k",
        FailureKind::Rejected,
        "too_large",
    );
    check_publish(PublishErrorKind::MaxPayloadExceeded, FailureKind::Rejected, "too_large", "");
    let unsent = unsent(&PublishError::new(PublishErrorKind::MaxPayloadExceeded));
    check(unsent, FailureKind::Rejected, "too_large", "");
}

#[test]
fn the_same_id_just_being_stored_is_later() {
    check_refusal(409, 10158, "duplicate message id is in process", FailureKind::Failed, "in_process");
}

#[test]
fn a_refusal_that_nobody_knows_is_later() {
    check_refusal(400, 19999, "something new", FailureKind::Failed, "js_19999");
}

#[test]
fn a_confirmation_that_does_not_come_is_unknown() {
    check_publish(PublishErrorKind::TimedOut, FailureKind::Unknown, "no_answer", "confirmation");
    check_publish(PublishErrorKind::BrokenPipe, FailureKind::Unknown, "connection_lost", "lost");
    check_publish(PublishErrorKind::Other, FailureKind::Unknown, "unreadable", "confirmation");
}

#[test]
fn a_batch_is_sent_again_only_if_the_server_says_that_nothing_of_it_is_stored() {
    let refused = PublishError::with_source(PublishErrorKind::Other, refusal(400, 10201, "duplicate"));
    let known = ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE;
    assert!(matches!(whole(&refused), Whole::NotStored(Some(code)) if code == known));
    let told = |kind| whole(&PublishError::new(kind));
    assert!(matches!(told(PublishErrorKind::StreamNotFound), Whole::NotStored(None)));
    assert!(matches!(told(PublishErrorKind::BrokenPipe), Whole::Lost));
    for (kind, code) in [(PublishErrorKind::TimedOut, "no_answer"), (PublishErrorKind::Other, "unreadable")] {
        let Whole::Unknown(outcome) = told(kind) else { panic!("{code}") };
        check(outcome, FailureKind::Unknown, code, "confirmation");
    }
    check(not_whole(), FailureKind::Unknown, "not_whole", "batch");
}

#[test]
fn what_was_never_written_is_down() {
    let never = |kind| unsent(&PublishError::new(kind));
    check(never(PublishErrorKind::TimedOut), FailureKind::Down, "no_answer", "");
    check(never(PublishErrorKind::Other), FailureKind::Down, "connection_lost", "before");
}

#[test]
fn a_missing_right_is_down_and_names_the_subject() {
    check(denied(SUBJECT), FailureKind::Down, "denied", SUBJECT);
}

#[test]
fn what_is_no_subject_is_rejected() {
    check(unroutable(&Error::invalid("not a subject")), FailureKind::Rejected, "unroutable", "not a subject");
}

#[test]
fn a_connection_that_cannot_be_made_says_why_and_where() {
    for (cause, kind, code) in [
        (ConnectErrorKind::AuthorizationViolation, ErrorKind::Denied, "denied"),
        (ConnectErrorKind::Authentication, ErrorKind::Denied, "denied"),
        (ConnectErrorKind::Tls, ErrorKind::Denied, "tls"),
        (ConnectErrorKind::Dns, ErrorKind::Unavailable, "dns"),
        (ConnectErrorKind::Io, ErrorKind::Unavailable, "unreachable"),
        (ConnectErrorKind::MaxReconnects, ErrorKind::Unavailable, "unreachable"),
        (ConnectErrorKind::TimedOut, ErrorKind::Timeout, "no_answer"),
    ] {
        let error = connecting(&ConnectError::new(cause), "nats://host:4222");
        assert_eq!((error.kind(), error.code()), (kind, Some(code)), "{cause:?}");
        check(down(&error), FailureKind::Down, code, "nats://host:4222");
    }
}

#[test]
fn a_question_that_is_refused_says_whether_waiting_helps() {
    for (status, kind) in [
        (404, ErrorKind::NotFound),
        (400, ErrorKind::Invalid),
        (403, ErrorKind::Denied),
        (503, ErrorKind::Unavailable),
    ] {
        assert_eq!(asking(&refusal(status, 1, "no")).kind(), kind, "{status}");
    }
    assert_eq!(unanswered(&"timed out").kind(), ErrorKind::Unavailable);
}
