//! The table, row by row, for what a server on this machine cannot be made to say.

use pillarbox_conformance::delivery::assert_outcome;

use super::*;

fn trouble(code: &str, status: u16) -> Trouble {
    Trouble { what: refusal(code, status), code: code.to_owned(), text: "why".to_owned() }
}

fn options(queue: &str) -> Options {
    Options::of_sink(&format!("sqs://eu-west-1/{queue}")).unwrap()
}

#[test]
fn a_refused_request_has_an_outcome_that_names_the_setting() {
    for (code, status, outcome, hint) in [
        ("NonExistentQueue", 400, "down/queue_missing", "check the queue and the region"),
        ("QueueDoesNotExist", 400, "down/queue_missing", "account="),
        ("AccessDenied", 403, "down/denied", "profile="),
        ("AccessDeniedException", 400, "down/denied", "credentials"),
        ("ExpiredTokenException", 400, "down/denied", "credentials"),
        ("InvalidClientTokenId", 403, "down/denied", "credentials"),
        ("SignatureDoesNotMatch", 403, "down/denied", "clock"),
        ("RequestExpired", 400, "down/denied", "clock"),
        ("KmsAccessDenied", 400, "down/denied", "KmsAccessDenied"),
        ("http_403", 403, "down/denied", "http_403"),
        ("RequestThrottled", 403, "down/throttled", "RequestThrottled"),
        ("KmsThrottled", 400, "down/throttled", "KmsThrottled"),
        ("http_429", 429, "down/throttled", "http_429"),
        ("ServiceUnavailable", 503, "down/ServiceUnavailable", "ServiceUnavailable"),
        ("InternalFailure", 500, "unknown/InternalFailure", "why"),
        ("http_502", 502, "unknown/http_502", "why"),
        ("BatchRequestTooLong", 400, "rejected/too_large", "why"),
        ("InvalidMessageContents", 400, "rejected/content", "why"),
        ("InvalidParameterValue", 400, "failed/InvalidParameterValue", "why"),
        ("UnsupportedOperation", 400, "failed/UnsupportedOperation", "why"),
    ] {
        let told = trouble(code, status).outcome(&options("orders"), "orders").unwrap();
        let failure = assert_outcome(&told, outcome);
        assert!(failure.text().contains(hint) && failure.text().contains("orders"), "{failure}");
    }
}

#[test]
fn throttled_and_one_queue_of_many_missing_are_busy_and_no_outage_of_all() {
    let throttled = trouble("RequestThrottled", 400).outcome(&options("orders"), "orders");
    assert!(matches!(throttled, Some(Outcome::Busy { .. })));
    let missing = |queue: &str| trouble("NonExistentQueue", 400).outcome(&options(queue), "orders-x");
    assert!(matches!(missing("orders-{type}"), Some(Outcome::Busy { .. })));
    assert!(matches!(missing("orders"), Some(Outcome::Down(_))));
}

#[test]
fn a_refused_message_is_rejected_only_if_the_sender_is_at_fault() {
    let one = |code: &str, sender: bool| refused_one(code, "why", sender, &options("orders"), "orders");
    assert_outcome(&one("InvalidParameterValue", true), "rejected/InvalidParameterValue");
    assert_outcome(&one("InternalError", false), "failed/InternalError");
    assert_outcome(&one("ServiceUnavailable", false), "failed/ServiceUnavailable");
    assert_outcome(&one("InvalidMessageContents", true), "rejected/content");
    assert_outcome(&one("AWS.SimpleQueueService.InvalidMessageContents", true), "rejected/content");
    // No fault of the message, whoever the server blames.
    assert_outcome(&one("RequestThrottled", true), "down/throttled");
    assert_outcome(&one("KmsAccessDenied", true), "down/denied");
}

#[test]
fn a_consumer_is_told_the_kind() {
    for (code, status, kind) in [
        ("NonExistentQueue", 400, ErrorKind::NotFound),
        ("AccessDenied", 403, ErrorKind::Denied),
        ("RequestThrottled", 400, ErrorKind::Unavailable),
        ("OverLimit", 400, ErrorKind::Unavailable),
        ("InternalFailure", 500, ErrorKind::Unavailable),
    ] {
        let error = trouble(code, status).into_error(&options("orders"), "orders");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let silent = Trouble::no_answer(Duration::from_secs(5)).into_error(&options("orders"), "orders");
    assert_eq!((silent.kind(), silent.code()), (ErrorKind::Timeout, Some("no_answer")));
}

#[test]
fn missing_credentials_say_where_they_are_looked_for() {
    let error = credentials(&options("orders"), "none");
    assert!(
        error.to_string().contains("AWS_ACCESS_KEY_ID") && error.code() == Some("credentials"),
        "{error}"
    );
    let error = credentials(&options("orders?profile=shop"), "none");
    assert!(error.to_string().contains("profile=shop"), "{error}");
}
