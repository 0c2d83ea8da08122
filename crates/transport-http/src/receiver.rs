//! Receiving webhooks with axum: an extractor that hands out only what is signed, small enough and an event.

use std::sync::Arc;
use std::time::Duration;

use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use pillarbox_core::limits::PAYLOAD_BYTES_DEFAULT;
use pillarbox_core::{Error, ErrorKind, Received};

use crate::binding::from_headers;
use crate::verify::{Unverified, Verifier};

/// How long the body of a request may take to arrive.
pub const BODY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// What a service needs to receive webhooks; part of its state. Cheap to clone.
///
/// ```no_run
/// use axum::{Router, http::StatusCode, routing::post};
/// use pillarbox_transport_http::{Receiver, VerifiedEvent, Verifier};
///
/// async fn take(VerifiedEvent(event): VerifiedEvent) -> StatusCode {
///     // In one transaction: accept `event.event_id` in the inbox, and write what the event means.
///     println!("{} {}", event.event_id, event.event_type);
///     StatusCode::NO_CONTENT
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = std::env::var("WEBHOOK_SECRET")?.parse()?;
/// let receiver = Receiver::new(Verifier::new([secret])?);
/// let service: Router = Router::new().route("/hooks", post(take)).with_state(receiver);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Receiver {
    verifier: Arc<Verifier>,
    body_bytes_max: usize,
    body_timeout: Duration,
}

impl Receiver {
    /// Receives what this verifies.
    #[must_use]
    pub fn new(verifier: Verifier) -> Self {
        Self {
            verifier: Arc::new(verifier),
            body_bytes_max: PAYLOAD_BYTES_DEFAULT,
            body_timeout: BODY_TIMEOUT_DEFAULT,
        }
    }

    /// Sets the largest body in bytes. Default: 1 MiB.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Sets how long the body may take to arrive. Default: [`BODY_TIMEOUT_DEFAULT`].
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Verifies and decodes a request.
    ///
    /// # Errors
    /// Why it is not taken.
    pub async fn receive(&self, headers: &HeaderMap, body: Body) -> Result<Received, NotTaken> {
        let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if said.is_some_and(|bytes| bytes > self.body_bytes_max) {
            return Err(NotTaken::TooLarge(self.body_bytes_max));
        }
        let body = self.read(body).await?;
        let verified = self.verifier.verify(headers, &body).map_err(NotTaken::Unverified)?;
        let (attributes, other) = from_headers(headers).map_err(NotTaken::NotAnEvent)?;
        // Only `webhook-id` is signed: an id that differs was put there by somebody else.
        if attributes.get("id").is_some_and(|id| id != verified.id) {
            let error = Error::new(ErrorKind::Corrupt, "not an event: ce-id is not the signed webhook-id");
            return Err(NotTaken::NotAnEvent(error));
        }
        Received::decode(attributes, other, body).map_err(NotTaken::NotAnEvent)
    }

    async fn read(&self, body: Body) -> Result<Vec<u8>, NotTaken> {
        let read = Limited::new(body, self.body_bytes_max).collect();
        match tokio::time::timeout(self.body_timeout, read).await {
            Ok(Ok(body)) => Ok(body.to_bytes().into()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(NotTaken::TooLarge(self.body_bytes_max)),
            Ok(Err(_)) => Err(NotTaken::Incomplete),
            Err(_) => Err(NotTaken::TooSlow),
        }
    }
}

/// Why a request was not taken: the answer that its sender gets.
///
/// A sender of Pillarbox keeps what was answered with 401, because the wrong key is nobody's fault but the operator's,
/// and gives up what was answered with another 4xx.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotTaken {
    /// 401: not signed, wrongly signed, too old or too new.
    Unverified(Unverified),
    /// 413: the body has more bytes than this.
    TooLarge(usize),
    /// 408: the body did not arrive in time.
    TooSlow,
    /// 400: the body did not arrive.
    Incomplete,
    /// Signed, and not an event that can be read. 400, or 431 for too many or too long headers, or 415 when it is not
    /// in binary mode.
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
            Self::TooLarge(most) => write!(f, "the body is too large; at most {most} bytes are taken"),
            Self::TooSlow => f.write_str("the body did not arrive in time"),
            Self::Incomplete => f.write_str("the body did not arrive"),
            Self::NotAnEvent(error) => f.write_str(error.message()),
        }
    }
}

impl std::error::Error for NotTaken {}

impl IntoResponse for NotTaken {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}

/// An event that was signed with one of our keys just now. What came a second time comes out a second time: accept its
/// `event_id` in the inbox, in the transaction of its effect.
///
/// The signature covers the id, the time and the body. Type, key and the other attributes are headers that it does not
/// cover: what must not be forged belongs in the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedEvent(pub Received);

impl<S> FromRequest<S> for VerifiedEvent
where
    Receiver: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = NotTaken;

    async fn from_request(request: Request, state: &S) -> Result<Self, NotTaken> {
        let (head, body) = request.into_parts();
        Receiver::from_ref(state).receive(&head.headers, body).await.map(Self)
    }
}
