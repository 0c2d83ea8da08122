//! The one table that says what an error of the server, the network or the client means for the work at hand.
//!
//! | what happened | for a publish | for a consumer |
//! |---|---|---|
//! | not reachable, host not found, TLS refused | down | unavailable, or denied |
//! | no credentials found | down | denied |
//! | wrong, expired or unauthorised credentials, a clock that is wrong | down | denied |
//! | no such queue | down; busy if the name has a placeholder | not found |
//! | the queue's key (KMS) cannot be used | down | denied |
//! | throttled, too many messages in flight | busy | unavailable |
//! | the server is overloaded or unavailable (503) | down | unavailable |
//! | the server failed (any other 5xx) | unknown | unavailable |
//! | larger than `message_bytes_max`, or than the queue's own limit | rejected | – |
//! | characters that SQS does not take | rejected | – |
//! | not a queue's name after the template was filled | rejected | – |
//! | one message refused, and the sender is at fault | rejected | – |
//! | one message refused, and the server is at fault | later | – |
//! | any other refusal of a request | later | unavailable |
//! | dropped by a FIFO queue as a repetition of the same event id | confirmed | – |
//! | no confirmation in time | unknown | unavailable |
//! | connection lost after the request was written | unknown, or down if nobody answers any more | unavailable |
//! | not written, because one before it was lost or refused | down or busy, as that one | – |
//!
//! Missing queues and rights are mistakes of the configuration, not of the message: calling them down opens the
//! route's circuit, and the entries wait, with the setting named, until an operator fixes it. Rejecting them would bury
//! every entry that is staged meanwhile. Where entries go to several queues, only one of them may be missing: hence busy
//! and not down, see [`Busy`](Outcome::Busy).

use std::error::Error as StdError;
use std::time::Duration;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use pillarbox_core::{Error, ErrorKind, Outcome};

use crate::options::Options;

/// Why a request has no answer that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) what: What,
    /// The server's code, or a word of ours.
    code: String,
    text: String,
}

/// The class of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nobody is reached: nothing was written.
    Unreachable,
    /// Nobody that we trust is reached, or not by TLS: nothing was written.
    Tls,
    /// The connection went away, or what came is no answer.
    Lost,
    /// No answer in time.
    NoAnswer,
    /// Rights or credentials are missing.
    Denied,
    /// The queue does not exist.
    Missing,
    /// The server wants to be left alone.
    Throttled,
    /// The server cannot work now.
    Unavailable,
    /// The server failed while it worked.
    Server,
    /// More bytes than the server takes.
    TooLarge,
    /// The content is refused.
    Content,
    /// Any other refusal.
    Refused,
}

impl Trouble {
    pub(crate) fn no_answer(limit: Duration) -> Self {
        Self { what: What::NoAnswer, code: "no_answer".into(), text: format!("no answer within {limit:?}") }
    }

    pub(crate) fn of<E>(cause: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let trouble = |what, code: &str, text| Self { what, code: code.to_owned(), text };
        match cause {
            SdkError::ServiceError(context) => {
                let (status, error) = (context.raw().status().as_u16(), context.err());
                let code = error.code().unwrap_or_default();
                let code = code.rsplit(['.', '#']).next().unwrap_or_default().to_owned();
                let text = error.message().unwrap_or("no more is said").to_owned();
                let code = if code.is_empty() { format!("http_{status}") } else { code };
                Self { what: refusal(&code, status), code, text }
            }
            SdkError::DispatchFailure(failure) => {
                let text = failure.as_connector_error().map_or_else(|| chain(cause), |error| chain(error));
                let is_tls = ["certificate", "CertificateUnknown", "corrupt message", "TLS", "tls handshake"];
                if is_tls.iter().any(|word| text.contains(word)) {
                    trouble(What::Tls, "tls", text)
                } else if failure.is_timeout() {
                    trouble(What::Unreachable, "no_answer", text)
                } else if UNCONNECTED.iter().any(|word| text.contains(word)) {
                    trouble(What::Unreachable, "unreachable", text)
                } else {
                    trouble(What::Lost, "connection_lost", text)
                }
            }
            SdkError::TimeoutError(_) => trouble(What::NoAnswer, "no_answer", chain(cause)),
            SdkError::ResponseError(context) => {
                let status = context.raw().status().as_u16();
                let what = if status == 503 { What::Unavailable } else { What::Lost };
                trouble(what, "no_sqs", format!("the answer (HTTP {status}) is none of SQS; check endpoint="))
            }
            _ => trouble(What::Refused, "request", chain(cause)),
        }
    }

    /// What becomes of the entries of the request. `None`: what was written may have arrived, and somebody must ask
    /// whether the server is still there.
    pub(crate) fn outcome(&self, options: &Options, queue: &str) -> Option<Outcome> {
        let text = || self.describe(options, queue);
        Some(match self.what {
            What::Lost => return None,
            What::NoAnswer => no_answer(),
            What::Missing if options.queue.constant().is_none() => Outcome::busy("queue_missing", text()),
            What::Missing => Outcome::down("queue_missing", text()),
            What::Throttled => Outcome::busy("throttled", text()),
            What::Server => Outcome::unknown(self.code.clone(), text()),
            What::TooLarge => Outcome::rejected("too_large", text()),
            What::Content => Outcome::rejected("content", text()),
            What::Refused => Outcome::failed(self.code.clone(), text()),
            What::Denied => Outcome::down("denied", text()),
            What::Unreachable | What::Tls | What::Unavailable => Outcome::down(self.code.clone(), text()),
        })
    }

    /// The same for a consumer, or for a question.
    pub(crate) fn into_error(self, options: &Options, queue: &str) -> Error {
        let (kind, code) = match self.what {
            What::NoAnswer => (ErrorKind::Timeout, "no_answer"),
            What::Denied => (ErrorKind::Denied, "denied"),
            What::Tls => (ErrorKind::Denied, "tls"),
            What::Missing => (ErrorKind::NotFound, "queue_missing"),
            What::Throttled => (ErrorKind::Unavailable, "throttled"),
            What::TooLarge => (ErrorKind::TooLarge, "too_large"),
            // A server that nobody finds, and all that time may mend.
            _ => (ErrorKind::Unavailable, self.code.as_str()),
        };
        Error::new(kind, self.describe(options, queue)).with_code(code)
    }

    fn describe(&self, options: &Options, queue: &str) -> String {
        let (address, Self { code, text, .. }) = (options.address(), self);
        match self.what {
            What::Unreachable => format!("cannot connect to {address}: {text}{}", where_to_look(options)),
            What::Tls => format!("cannot connect to {address}: {text}; check the certificate, or ca="),
            What::Lost => format!("the connection to {address} was lost: {text}"),
            What::NoAnswer => format!("{address} does not answer: {text}"),
            What::Missing => format!(
                "queue {queue:?} does not exist at {address}; create it, or check the queue and the region in the URL, \
                 and account="
            ),
            What::Denied => format!("{address} says of queue {queue:?}: {code}: {text}{DENIED}"),
            // No code is no answer of SQS.
            _ if code.starts_with("http_") => {
                format!("{address} says of queue {queue:?}: {code}: {text}{}", where_to_look(options))
            }
            _ => format!("{address} says of queue {queue:?}: {code}: {text}"),
        }
    }
}

const DENIED: &str =
    "; check the credentials (environment, or profile=), their right to this queue, and the clock";
/// How the client's texts begin where nothing was written.
const UNCONNECTED: [&str; 4] =
    ["tcp connect error", "dns error", "client error (Connect)", "connection refused"];

fn where_to_look(options: &Options) -> &'static str {
    if options.endpoint.is_some() { "; check endpoint=" } else { "; check the region in the URL" }
}

/// What a code of the server means, without its prefix.
fn refusal(code: &str, status: u16) -> What {
    match code {
        "NonExistentQueue" | "QueueDoesNotExist" | "QueueDeletedRecently" | "InvalidAddress" => What::Missing,
        "RequestThrottled"
        | "ThrottlingException"
        | "Throttling"
        | "KmsThrottled"
        | "OverLimit"
        | "TooManyRequests" => What::Throttled,
        "BatchRequestTooLong" | "MessageTooLong" => What::TooLarge,
        "InvalidMessageContents" => What::Content,
        "ServiceUnavailable" | "ServiceUnavailableException" => What::Unavailable,
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "InvalidSecurity"
        | "OptInRequired"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "AuthFailure"
        | "IncompleteSignature"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "InvalidAccessKeyId" => What::Denied,
        _ if ["AccessDenied", "ExpiredToken", "NotAuthorized", "Kms", "InvalidSignature"]
            .iter()
            .any(|prefix| code.starts_with(prefix)) =>
        {
            What::Denied
        }
        _ => match status {
            401 | 403 => What::Denied,
            429 => What::Throttled,
            503 => What::Unavailable,
            500..=599 => What::Server,
            _ => What::Refused,
        },
    }
}

/// The outcome of one message of a request that the server took as a whole.
pub(crate) fn refused_one(
    code: &str,
    text: &str,
    sender_fault: bool,
    options: &Options,
    queue: &str,
) -> Outcome {
    let code = code.rsplit(['.', '#']).next().unwrap_or_default();
    let what = match refusal(code, 400) {
        // The rest says whose fault it is.
        What::Refused | What::Server if sender_fault => {
            return Outcome::rejected(code, format!("the server refuses the message: {text}"));
        }
        What::Server | What::Unavailable => What::Refused,
        what => what,
    };
    let trouble = Trouble { what, code: code.to_owned(), text: text.to_owned() };
    trouble.outcome(options, queue).unwrap_or_else(no_answer)
}

/// The credentials cannot be had.
pub(crate) fn credentials(options: &Options, why: &str) -> Error {
    let text = match &options.profile {
        Some(profile) => format!("no AWS credentials for profile={profile}: {why}"),
        None => format!(
            "no AWS credentials were found: {why}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with \
             profile=, or give the machine a role"
        ),
    };
    Error::new(ErrorKind::Denied, text).with_code("credentials")
}

/// Over the limit of a message.
pub(crate) fn too_large(bytes: usize, limit: usize) -> Outcome {
    let text = format!("the message has {bytes} bytes as CloudEvents JSON; message_bytes_max is {limit}");
    Outcome::rejected("too_large", text)
}

/// The template, filled, is no queue's name.
pub(crate) fn unroutable(error: &Error) -> Outcome {
    Outcome::rejected("unroutable", error.message())
}

/// The connection went away after the request was written.
pub(crate) fn lost() -> Outcome {
    Outcome::unknown("connection_lost", "the connection was lost before the confirmation came")
}

/// A request before this one had no answer, so this one was not written.
pub(crate) fn lost_before() -> Outcome {
    Outcome::down("connection_lost", "the connection was lost before the message was written")
}

/// The confirmation did not come.
pub(crate) fn no_answer() -> Outcome {
    Outcome::unknown("no_answer", "no confirmation in time; the message may have been stored")
}

/// The server has not confirmed earlier messages, so this one was not written.
pub(crate) fn stuck() -> Outcome {
    Outcome::down("no_answer", "the server has not confirmed earlier messages, so this one was not written")
}

/// The server says of a message that it is not among those that it confirms or refuses.
pub(crate) fn unmentioned() -> Outcome {
    Outcome::unknown("unmentioned", "the server's answer does not mention the message")
}

/// No server can be reached, or the queue cannot be used.
pub(crate) fn down(error: &Error, options: &Options) -> Outcome {
    let code = error.code().unwrap_or(error.kind().as_str());
    match error.kind() {
        ErrorKind::NotFound if options.queue.constant().is_none() => Outcome::busy(code, error.message()),
        ErrorKind::Unavailable if code == "throttled" => Outcome::busy(code, error.message()),
        _ => Outcome::down(code, error.message()),
    }
}

/// An error and all that is behind it, in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests;
