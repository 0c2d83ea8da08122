//! The one table that says what an error of the broker, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, handshake unanswered, channel limit | down | unavailable |
//! | the broker shuts down (320) | down | unavailable |
//! | memory or disk alarm (`connection.blocked`) | down | – |
//! | no exchange, no queue (404) | down | not found |
//! | no rights, wrong password (403), wrong vhost (530) | down | denied |
//! | certificate refused | down | denied |
//! | a file that a setting names cannot be read | down | invalid |
//! | message over the broker's limit (406) | that message rejected; the others as after a lost connection | – |
//! | connection or channel lost after the message was written | unknown, or down if nobody answers any more | unavailable |
//! | connection or channel lost before that | down | unavailable |
//! | returned by the broker: no queue is bound | rejected | – |
//! | refused by a queue (`basic.nack`): it is full, or cannot store the message | busy | – |
//! | no confirm for anything in time, and the broker answers: a quorum queue without a majority | down | – |
//!
//! A missing exchange and missing rights are mistakes of the configuration, not of the message: calling them down
//! opens the route's circuit, and the entries wait, with the setting named, until an operator fixes it.
//! Rejecting them would bury every entry that is staged meanwhile.
//!
//! A nack does not say which queue refused the message, nor why. Of the reasons that RabbitMQ has, none lies in the
//! message: the queue is full (`reject-publish`), its process ended, its disk is full. So it costs no attempt. A single
//! message that is always refused holds nobody up for good: see [`Busy`](Outcome::Busy).

use std::fmt::Write;
use std::io;

use lapin::ErrorKind as Cause;
use pillarbox_core::{Error, ErrorKind, Outcome};

/// What an error means for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// The broker accepts no messages: not the message's fault.
    Down,
    /// The connection or channel is gone: what was written may or may not have arrived.
    Lost,
    /// A message on the channel was larger than this many bytes, and the channel is gone for all.
    TooLarge(usize),
}

/// An error with its meaning. The text is for people and names the setting to look at.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) means: Means,
    code: &'static str,
    kind: ErrorKind,
    text: String,
}

/// How far a message had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not a complete byte of it can have reached the broker.
    Waiting,
    /// It was written to the socket; the broker's word is missing.
    Written,
}

impl Fault {
    pub(crate) fn down(code: &'static str, text: impl Into<String>) -> Self {
        Self { means: Means::Down, code, kind: ErrorKind::Unavailable, text: text.into() }
    }

    /// A file that a setting names cannot be read.
    pub(crate) fn unreadable(setting: &str, error: &io::Error) -> Self {
        let text = format!("cannot read the file that {setting} names: {error}");
        Self { kind: ErrorKind::Invalid, ..Self::down("unreadable", text) }
    }

    /// The broker did not answer in time.
    pub(crate) fn no_answer(doing: &str, within: std::time::Duration) -> Self {
        let text = format!("the broker did not answer within {within:?} ({doing})");
        Self { means: Means::Down, code: "no_answer", kind: ErrorKind::Timeout, text }
    }

    /// The outcome of a message of this many payload bytes that had come this far. `Unknown` may still turn out to
    /// be [`Down`](Outcome::Down): the sink asks whether the broker is there.
    pub(crate) fn outcome(&self, payload_bytes: usize, progress: Progress) -> Outcome {
        match (self.means, progress) {
            (Means::TooLarge(limit), _) if payload_bytes > limit => too_large(payload_bytes, limit),
            (Means::Down, _) | (_, Progress::Waiting) => self.as_down(),
            (Means::Lost | Means::TooLarge(_), Progress::Written) => Outcome::unknown(self.code, &self.text),
        }
    }

    /// Whether the broker said nothing at all, so that the connection itself is in doubt.
    pub(crate) fn is_silence(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    pub(crate) fn as_down(&self) -> Outcome {
        Outcome::down(self.code, &self.text)
    }

    /// The same for a consumer.
    pub(crate) fn into_error(self, doing: &str) -> Error {
        Error::new(self.kind, self.text).with_code(self.code).context(doing)
    }
}

/// Over a limit, the broker's or the configured one.
pub(crate) fn too_large(payload_bytes: usize, limit: usize) -> Outcome {
    Outcome::rejected(
        "too_large",
        format!("the payload has {payload_bytes} bytes; at most {limit} are accepted"),
    )
}

/// No queue is bound to where the message was sent.
pub(crate) fn unroutable(exchange: &str, routing_key: &str) -> Outcome {
    let text = format!("no queue is bound to exchange {exchange:?} for routing key {routing_key:?}");
    Outcome::rejected("unroutable", text)
}

/// A queue did not take the message.
pub(crate) fn nacked() -> Outcome {
    let text = "a queue refused the message: it is full, or it could not store it. The relay sends it again until a \
         queue accepts it";
    Outcome::busy("nack", text)
}

/// The broker answers, but confirms nothing. It holds the messages and may store them later.
pub(crate) fn no_confirm(within: std::time::Duration) -> Outcome {
    let text = format!(
        "the broker answers, but has confirmed nothing for {within:?}. Check that each quorum queue has a \
         majority of its members"
    );
    Outcome::down("no_confirm", text)
}

impl From<lapin::Error> for Fault {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            Cause::ProtocolError(error) => of_broker(error.get_id(), error.get_message().as_str()),
            // rustls reports a certificate that it does not trust as invalid data.
            Cause::IOError(error) if error.kind() == io::ErrorKind::InvalidData => Self {
                kind: ErrorKind::Denied,
                ..Self::down(
                    "tls",
                    format!(
                        "TLS failed: {error}. amqps:// needs a certificate for this host, from an authority \
                         that the system or ca= trusts"
                    ),
                )
            },
            Cause::AuthProviderError(why) => {
                Self { kind: ErrorKind::Denied, ..Self::down("denied", format!("cannot log in: {why}")) }
            }
            Cause::ChannelsLimitReached => Self::down("channels", error.to_string()),
            Cause::MissingHeartbeatError => lost("heartbeat", error.to_string()),
            _ => lost("connection_lost", error.to_string()),
        }
    }
}

fn lost(code: &'static str, text: impl Into<String>) -> Fault {
    Fault { means: Means::Lost, ..Fault::down(code, text) }
}

/// What the broker says by its own reply codes.
fn of_broker(reply_code: u16, said: &str) -> Fault {
    let mut text = format!("the broker says: {said}");
    let mut hint = |hint: &str| {
        // Writing to a String cannot fail.
        let _ = write!(text, "; {hint}");
    };
    let (means, code, kind) = match reply_code {
        320 => (Means::Down, "shutdown", ErrorKind::Unavailable),
        403 => {
            hint("check the URL's user and password, and that user's permissions");
            (Means::Down, "denied", ErrorKind::Denied)
        }
        404 => {
            hint("check exchange= or queue=, or declare it");
            (Means::Down, "not_found", ErrorKind::NotFound)
        }
        405 => (Means::Down, "locked", ErrorKind::Contention),
        406 => match size_limit(said) {
            Some(limit) => (Means::TooLarge(limit), "too_large_neighbour", ErrorKind::TooLarge),
            None => (Means::Lost, "precondition_failed", ErrorKind::Unavailable),
        },
        506 => (Means::Down, "resources", ErrorKind::Unavailable),
        530 => {
            hint("check the vhost in the URL's path, and the user's access to it");
            (Means::Down, "not_allowed", ErrorKind::Denied)
        }
        _ => (Means::Lost, "protocol", ErrorKind::Unavailable),
    };
    Fault { means, code, kind, text }
}

/// The limit in `message size 9 is larger than configured max size 8`.
fn size_limit(said: &str) -> Option<usize> {
    let (_, rest) = said.split_once("max size ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests;
