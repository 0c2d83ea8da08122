//! Receiving webhooks: only what is signed, small enough and an event comes out.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use pillarbox_core::limits::PAYLOAD_BYTES_DEFAULT;
use pillarbox_core::{Error, ErrorKind, HybridClock, Received};

use crate::binding::from_headers;
use crate::verify::{Unverified, Verifier};

/// The default of [`Receiver::body_timeout`]: how long the extractor waits for the body of a request.
pub const BODY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Receives webhooks in a service. Cheap to clone.
///
/// With axum the receiver is part of the service's state, from which `VerifiedEvent` takes it. Without axum:
///
/// ```
/// use http::HeaderMap;
/// use pillarbox_core::Received;
/// use pillarbox_transport_http::{NotTaken, Receiver};
///
/// fn take(receiver: &Receiver, headers: &HeaderMap, body: Vec<u8>) -> Result<Received, NotTaken> {
///     // The answer to what is not taken is `NotTaken::status` with its text.
///     receiver.receive(headers, body)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Receiver {
    verifier: Arc<Verifier>,
    body_bytes_max: usize,
    body_timeout: Duration,
    clock: Option<Arc<HybridClock>>,
}

impl Receiver {
    /// A receiver that takes the webhooks that this verifier verifies.
    #[must_use]
    pub fn new(verifier: Verifier) -> Self {
        Self {
            verifier: Arc::new(verifier),
            body_bytes_max: PAYLOAD_BYTES_DEFAULT,
            body_timeout: BODY_TIMEOUT_DEFAULT,
            clock: None,
        }
    }

    /// Sets the largest body in bytes. Default: 1 MiB.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Sets how long the extractor waits for the body. Default: [`BODY_TIMEOUT_DEFAULT`].
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the clock into which the stamps of received events are merged. Default: the clock of this
    /// process, which stamps the events that an outbox stages.
    #[must_use]
    pub fn clock(mut self, clock: Arc<HybridClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The largest body in bytes.
    #[cfg(feature = "axum")]
    pub(crate) fn most_bytes(&self) -> usize {
        self.body_bytes_max
    }

    /// How long the body may take to arrive.
    #[cfg(feature = "axum")]
    pub(crate) fn patience(&self) -> Duration {
        self.body_timeout
    }

    /// Verifies and decodes a request whose body has arrived. Events that this process stages afterwards have
    /// a later stamp than this event.
    ///
    /// # Errors
    /// The reason why the request is not taken.
    pub fn receive(&self, headers: &HeaderMap, body: Vec<u8>) -> Result<Received, NotTaken> {
        if body.len() > self.body_bytes_max {
            return Err(NotTaken::TooLarge(self.body_bytes_max));
        }
        let verified = self.verifier.verify(headers, &body).map_err(NotTaken::Unverified)?;
        let (attributes, other) = from_headers(headers).map_err(NotTaken::NotAnEvent)?;
        // Only `webhook-id` is signed: an id that differs was not written by the signer.
        if attributes.get("id").is_some_and(|id| id != verified.id) {
            let error = Error::new(ErrorKind::Corrupt, "not an event: ce-id is not the signed webhook-id");
            return Err(NotTaken::NotAnEvent(error));
        }
        let event = Received::decode(attributes, other, body).map_err(NotTaken::NotAnEvent)?;
        self.merge(&event);
        Ok(event)
    }

    /// Whether the event is fresh only the inbox will know. A replay does no harm: its stamp is older than the clock
    /// already is. The signature does not cover the stamp; how far it may move the clock is bounded.
    fn merge(&self, event: &Received) {
        let Some(hlc) = event.hlc else { return };
        let merged = match &self.clock {
            Some(clock) => clock.merge(hlc),
            None => pillarbox_host::process_clock().merge(hlc),
        };
        if let Err(error) = merged {
            tracing::warn!(
                event_id = %event.event_id, %error,
                "the event's clock stamp was not merged into this process's clock; events staged from now on \
                 may sort before it"
            );
        }
    }
}

/// Why a request was not taken. It determines the answer to the sender.
///
/// If the answer is 401, a sink of Pillarbox keeps the entry, because a wrong key is an error of
/// configuration, not of the entry. After a 408 it tries the entry again. After any other of these answers
/// the entry is rejected, and is dead.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotTaken {
    /// 401: the request has no signature or a wrong one, or it is too old or too new.
    Unverified(Unverified),
    /// 413: the body has more than this many bytes.
    TooLarge(usize),
    /// 408: the body did not arrive in time.
    TooSlow,
    /// 400: the body did not arrive.
    Incomplete,
    /// The request is signed, but it is not a readable event. The status is 415 if it is not in binary mode,
    /// 431 if headers are too many or too long, and 400 otherwise.
    NotAnEvent(Error),
}

impl NotTaken {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unverified(_) => StatusCode::UNAUTHORIZED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::NotAnEvent(error) => match error.kind() {
                ErrorKind::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                ErrorKind::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                _ => StatusCode::BAD_REQUEST,
            },
        }
    }
}

impl std::fmt::Display for NotTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unverified(why) => why.fmt(f),
            Self::TooLarge(most) => write!(f, "the body is too large; at most {most} bytes are accepted"),
            Self::TooSlow => f.write_str("the body did not arrive in time"),
            Self::Incomplete => f.write_str("the body did not arrive"),
            Self::NotAnEvent(error) => f.write_str(error.message()),
        }
    }
}

impl std::error::Error for NotTaken {}
