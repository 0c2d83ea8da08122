//! One test per row of the table that needs no server; the integration tests provoke the rows on a real one.

use pillarbox_core::FailureKind;

use super::*;

/// What the client makes of a line that the server sends.
fn server(line: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

fn check(outcome: Outcome, kind: FailureKind, code: &str, named: &str) {
    let Some(failure) = outcome.failure() else { panic!("{outcome:?}") };
    assert_eq!((failure.kind, failure.code()), (kind, code));
    assert!(failure.text().contains(named), "{failure}");
}

fn publish(line: &str, kind: FailureKind, code: &str, named: &str) {
    check(unconfirmed(&server(line), Medium::Stream, "orders").unwrap(), kind, code, named);
}

fn consume(line: &str, kind: ErrorKind, named: &str) {
    let error = consuming(&server(line), "stream");
    assert_eq!(error.kind(), kind, "{line}");
    assert!(error.to_string().contains(named), "{error}");
}

#[test]
fn missing_rights_are_down_and_denied() {
    for (line, code, named) in [
        ("NOAUTH Authentication required.", "noauth", "user and password"),
        ("WRONGPASS invalid username-password pair", "wrongpass", "user and password"),
        ("NOPERM this user has no permissions to run the 'xadd' command", "noperm", "ACL"),
    ] {
        publish(line, FailureKind::Down, code, named);
        consume(line, ErrorKind::Denied, named);
        let error = connecting(&server(line), "redis://host:6379");
        assert_eq!(error.kind(), ErrorKind::Denied);
        check(down(&error), FailureKind::Down, code, "redis://host:6379");
    }
}

#[test]
fn a_key_that_is_not_a_stream_is_down_and_invalid() {
    let line = "WRONGTYPE Operation against a key holding the wrong kind of value";
    publish(line, FailureKind::Down, "wrongtype", "stream=");
    publish(line, FailureKind::Down, "wrongtype", "orders");
    consume(line, ErrorKind::Invalid, "stream=");
}

#[test]
fn a_group_that_is_not_there_is_not_found() {
    consume("NOGROUP No such key 'orders' or consumer group 'billing'", ErrorKind::NotFound, "group=");
}

#[test]
fn a_server_without_memory_is_down() {
    let line = "OOM command not allowed when used memory > 'maxmemory'.";
    publish(line, FailureKind::Down, "oom", "maxmemory");
    consume(line, ErrorKind::Unavailable, "maxmemory");
}

#[test]
fn a_server_that_is_not_the_master_or_not_alone_is_down() {
    for (line, code, named) in [
        ("READONLY You can't write against a read only replica.", "readonly", "master"),
        ("MOVED 3999 127.0.0.1:6381", "moved", "Cluster"),
        ("ASK 3999 127.0.0.1:6381", "ask", "Cluster"),
        ("CLUSTERDOWN The cluster is down", "clusterdown", "Cluster"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "crossslot", "Cluster"),
    ] {
        publish(line, FailureKind::Down, code, named);
        consume(line, ErrorKind::Unavailable, named);
    }
}

#[test]
fn a_server_that_cannot_just_now_is_down() {
    for (line, code) in [
        ("LOADING Redis is loading the dataset in memory", "loading"),
        ("MISCONF Redis is configured to save RDB snapshots", "misconf"),
        ("NOREPLICAS Not enough good replicas to write.", "noreplicas"),
        ("MASTERDOWN Link with MASTER is down", "masterdown"),
        ("BUSY Redis is busy running a script.", "busy"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "tryagain"),
        ("UNBLOCKED client unblocked by CLIENT UNBLOCK", "unblocked"),
        ("ERR max number of clients reached", "err"),
    ] {
        publish(line, FailureKind::Down, code, "Redis");
        consume(line, ErrorKind::Unavailable, "");
    }
}

#[test]
fn what_is_too_large_is_rejected() {
    publish("ERR Protocol error: invalid bulk length", FailureKind::Rejected, "too_large", "bulk length");
}

#[test]
fn a_refusal_that_nobody_knows_is_later() {
    publish("ERR something new", FailureKind::Failed, "err", "something new");
    publish("NEWCODE something new", FailureKind::Failed, "newcode", "something new");
}

#[test]
fn a_lost_connection_is_left_to_the_sink() {
    let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
    assert_eq!(unconfirmed(&lost, Medium::Stream, "orders"), None);
    assert_eq!(consuming(&lost, "stream").kind(), ErrorKind::Unavailable);
    check(super::lost(), FailureKind::Unknown, "connection_lost", "lost");
    check(no_answer(), FailureKind::Unknown, "no_answer", "in time");
}

#[test]
fn an_empty_key_is_rejected() {
    check(unroutable(Medium::Stream), FailureKind::Rejected, "unroutable", "empty");
}

#[test]
fn a_connection_that_cannot_be_made_says_why_and_where() {
    let io =
        |kind: std::io::ErrorKind, text: &str| RedisError::from(std::io::Error::new(kind, text.to_owned()));
    for (cause, kind, code) in [
        (io(std::io::ErrorKind::ConnectionRefused, "refused"), ErrorKind::Unavailable, "unreachable"),
        (io(std::io::ErrorKind::TimedOut, "timed out"), ErrorKind::Timeout, "no_answer"),
        (
            io(std::io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer"),
            ErrorKind::Denied,
            "tls",
        ),
        (io(std::io::ErrorKind::InvalidData, "received corrupt message"), ErrorKind::Denied, "tls"),
        (RedisError::from((Cause::AuthenticationFailed, "no")), ErrorKind::Denied, "denied"),
        (RedisError::from((Cause::InvalidClientConfig, "no")), ErrorKind::Invalid, "address"),
        (server("ERR DB index is out of range"), ErrorKind::Invalid, "err"),
    ] {
        let error = connecting(&cause, "redis://host:6379");
        assert_eq!((error.kind(), error.code()), (kind, Some(code)), "{cause}");
        check(down(&error), FailureKind::Down, code, "redis://host:6379");
    }
}
