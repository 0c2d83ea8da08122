//! For axum 0.8: an extractor that hands out only what is signed, small enough and an event.

use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use pillarbox_core::Received;
use tokio::time::timeout;

use crate::receiver::{NotTaken, Receiver};

/// An event that was just verified: it is signed with one of the receiver's keys, and recent. An event that
/// was sent twice is extracted twice. So accept its `event_id` in the inbox, in the transaction of its
/// effect.
///
/// The signature covers the id, the time and the body. Type, key and the other attributes are headers, which
/// it does not cover. Put every value that must not be forged into the payload.
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
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedEvent(pub Received);

impl<S> FromRequest<S> for VerifiedEvent
where
    Receiver: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = NotTaken;

    async fn from_request(request: Request, state: &S) -> Result<Self, NotTaken> {
        let receiver = Receiver::from_ref(state);
        let (head, body) = request.into_parts();
        let said =
            head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if said.is_some_and(|bytes| bytes > receiver.most_bytes()) {
            return Err(NotTaken::TooLarge(receiver.most_bytes()));
        }
        let body = read(&receiver, body).await?;
        receiver.receive(&head.headers, body).map(Self)
    }
}

async fn read(receiver: &Receiver, body: Body) -> Result<Vec<u8>, NotTaken> {
    let read = Limited::new(body, receiver.most_bytes()).collect();
    match timeout(receiver.patience(), read).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(NotTaken::TooLarge(receiver.most_bytes())),
        Ok(Err(_)) => Err(NotTaken::Incomplete),
        Err(_) => Err(NotTaken::TooSlow),
    }
}

impl IntoResponse for NotTaken {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}
