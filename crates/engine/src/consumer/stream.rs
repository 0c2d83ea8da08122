//! The stream of a consumer through its losses: lost, opening, open.

use std::future::Future;
use std::pin::Pin;

use pillarbox_core::Result;
use pillarbox_core::port::{Message, Subscription};
use tokio::time::{Instant, sleep_until};

type Opening<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Subscription>>> + Send + 'a>>;

/// Where the messages come from at the moment.
///
/// Opening is a state like the others, so that a broker that does not answer delays neither a shutdown nor the
/// messages that are being handled.
pub(super) enum Stream<'a> {
    /// To be opened again at this time.
    Lost { until: Instant },
    /// Being opened.
    Opening(Opening<'a>),
    /// Messages come.
    Open(Box<dyn Subscription>),
}

/// What a stream did.
pub(super) enum StreamEvent {
    /// It is time to open it.
    Due,
    Opened(Result<Box<dyn Subscription>>),
    Received(Result<Option<Message>>),
}

impl Stream<'_> {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Gives back what was received ahead.
    pub(super) async fn close(&mut self) {
        if let Self::Open(subscription) = self {
            subscription.close().await;
        }
    }

    /// Waits for the next step. Dropping the future loses nothing.
    pub(super) async fn step(&mut self) -> StreamEvent {
        match self {
            Self::Lost { until } => {
                sleep_until(*until).await;
                StreamEvent::Due
            }
            Self::Opening(opening) => StreamEvent::Opened(opening.await),
            Self::Open(subscription) => StreamEvent::Received(subscription.next().await),
        }
    }
}
