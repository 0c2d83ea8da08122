//! The one table that says what an error of the server, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, handshake unanswered, too many clients | down | unavailable |
//! | wrong or missing user or password (`WRONGPASS`, `NOAUTH`) | down | denied |
//! | no right to the command or the key (`NOPERM`) | down | denied |
//! | the key is not a stream (`WRONGTYPE`) | down | invalid |
//! | no such group (`NOGROUP`) | – | not found |
//! | out of memory (`OOM`, with `maxmemory` and `noeviction`) | down | unavailable |
//! | a replica (`READONLY`), a node of a cluster (`MOVED`, `ASK`, `CLUSTERDOWN`, `CROSSSLOT`) | down | unavailable |
//! | loading, its last save failed, replicas or the master missing, a script running | down | unavailable |
//! | larger than `proto-max-bulk-len` | rejected | – |
//! | an empty key after the template was filled | rejected | – |
//! | any other refusal of one command | later | invalid |
//! | no confirmation in time | unknown | unavailable |
//! | connection lost after the message was written | unknown, or down if nobody answers any more | unavailable |
//!
//! Missing rights and a key that is not a stream are mistakes of the configuration, not of the message: calling them
//! down opens the route's circuit, and the entries wait, with the setting named, until an operator fixes it.
//! Rejecting them would bury every entry that is staged meanwhile.

use pillarbox_core::{Error, ErrorKind, Outcome};
use redis::{ErrorKind as Cause, RedisError};

use crate::options::Medium;

/// What an error means for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The broker accepts no messages: not the message's fault.
    Down(ErrorKind),
    /// This message is too large.
    TooLarge,
    /// This message was refused, for a reason that we do not know.
    Later,
    /// The connection is gone.
    Lost,
}

/// The outcome of a command that publishes to this stream or channel. `None`: the connection is gone, and the sink asks whether
/// anybody is there before it decides.
pub(crate) fn unconfirmed(error: &RedisError, medium: Medium, name: &str) -> Option<Outcome> {
    let (means, hint) = meaning(error);
    let code = code(error);
    let text = format!("Redis says of {} {name:?}: {}{hint}", medium.as_str(), said(error));
    Some(match means {
        Means::Down(_) => Outcome::down(code, text),
        Means::TooLarge => Outcome::rejected("too_large", text),
        Means::Later => Outcome::failed(code, text),
        Means::Lost => return None,
    })
}

/// The same for a consumer.
pub(crate) fn consuming(error: &RedisError, doing: &str) -> Error {
    let (means, hint) = meaning(error);
    let kind = match means {
        Means::Down(kind) => kind,
        Means::TooLarge | Means::Later => ErrorKind::Invalid,
        Means::Lost => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{doing}: {}{hint}", said(error))).with_code(code(error))
}

/// Why no connection could be made.
pub(crate) fn connecting(error: &RedisError, address: &str) -> Error {
    let (kind, code, hint) = match (error.kind(), meaning(error)) {
        // An answer of the server during the login.
        (Cause::AuthenticationFailed, _) => (ErrorKind::Denied, "denied".to_owned(), LOGIN),
        (Cause::InvalidClientConfig, _) => (ErrorKind::Invalid, "address".to_owned(), ""),
        (Cause::RESP3NotSupported, _) => {
            (ErrorKind::Unsupported, code(error), "; Redis 6.2 or newer is needed")
        }
        (Cause::Io, _) if is_tls(error) => {
            (ErrorKind::Denied, "tls".to_owned(), "; check the certificate, or ca=")
        }
        (Cause::Io, _) if error.is_timeout() => (ErrorKind::Timeout, "no_answer".to_owned(), ""),
        (Cause::Io, _) => (ErrorKind::Unavailable, "unreachable".to_owned(), ""),
        (_, (Means::Down(kind), hint)) => (kind, code(error), hint),
        _ => (ErrorKind::Unavailable, code(error), ""),
    };
    Error::new(kind, format!("cannot connect to {address}: {}{hint}", said(error))).with_code(code)
}

const LOGIN: &str = "; check the URL's user and password";

fn meaning(error: &RedisError) -> (Means, &'static str) {
    let Some(code) = error.code() else {
        return match error.kind() {
            Cause::AuthenticationFailed => (Means::Down(ErrorKind::Denied), LOGIN),
            Cause::UnexpectedReturnType => (Means::Later, ""),
            _ => (Means::Lost, ""),
        };
    };
    let unavailable = Means::Down(ErrorKind::Unavailable);
    match code {
        "OOM" => (unavailable, "; raise maxmemory, or trim with maxlen="),
        "NOAUTH" | "WRONGPASS" => (Means::Down(ErrorKind::Denied), LOGIN),
        "NOPERM" => (Means::Down(ErrorKind::Denied), "; check that user's ACL"),
        "WRONGTYPE" => (Means::Down(ErrorKind::Invalid), "; the key does not hold a stream: check stream="),
        "NOGROUP" => (
            Means::Down(ErrorKind::NotFound),
            "; check group= and stream=, or add create_group=true to create the group",
        ),
        "READONLY" => (unavailable, "; this server is a replica: the URL must name the master"),
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN" => {
            (unavailable, "; Redis Cluster is not supported: the URL must name a standalone server")
        }
        "LOADING" | "MISCONF" | "NOREPLICAS" | "MASTERDOWN" | "BUSY" | "UNBLOCKED" => (unavailable, ""),
        _ => match error.detail().unwrap_or_default() {
            detail if detail.contains("Protocol error: invalid bulk length") => (Means::TooLarge, ""),
            detail if detail.contains("max number of clients") => (unavailable, ""),
            detail if detail.contains("DB index is out of range") => {
                (Means::Down(ErrorKind::Invalid), "; check the database in the URL's path")
            }
            detail if detail.contains("unknown command") => (unavailable, "; Redis 6.2 or newer is needed"),
            _ => (Means::Later, ""),
        },
    }
}

/// The server's own code in lower case, or one of ours.
fn code(error: &RedisError) -> String {
    let of_kind = || if error.is_io_error() { "connection_lost" } else { "unreadable" };
    error.code().unwrap_or_else(of_kind).to_ascii_lowercase()
}

/// What the server said, without the names that the client gives to it.
fn said(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

/// Whether the peer's certificate is not trusted, or the peer does not speak TLS. The client hides the kind of the
/// error, so its text must do.
fn is_tls(error: &RedisError) -> bool {
    let text = error.to_string();
    ["certificate", "corrupt message"].iter().any(|sign| text.contains(sign))
}

/// Over the server's limit.
pub(crate) fn too_large(payload_bytes: usize, limit: usize) -> Outcome {
    Outcome::rejected(
        "too_large",
        format!("the payload has {payload_bytes} bytes; at most {limit} are accepted"),
    )
}

/// The template, filled, is no key.
pub(crate) fn unroutable(medium: Medium) -> Outcome {
    let text = format!("{}= gives an empty name for this entry: its key is empty", medium.as_str());
    Outcome::rejected("unroutable", text)
}

/// The connection went away after the message was written.
pub(crate) fn lost() -> Outcome {
    Outcome::unknown("connection_lost", "the connection was lost before the confirmation came")
}

/// The confirmation did not come.
pub(crate) fn no_answer() -> Outcome {
    Outcome::unknown("no_answer", "no confirmation in time")
}

/// No server can be reached.
pub(crate) fn down(error: &Error) -> Outcome {
    Outcome::down(error.code().unwrap_or(error.kind().as_str()), error.message())
}

#[cfg(test)]
mod tests;
