//! What a destination has received and still holds, to be compared with what was staged.

use async_trait::async_trait;

use crate::error::Result;
use crate::received::Attributes;

/// A place whose messages stay after they were read: anybody can read it from its beginning, as often as wanted, and
/// nobody who consumes it notices.
#[async_trait]
pub trait Transcript: Send + Sync {
    /// Begins at the oldest message. What arrives after this call may be left out.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the place is not there, and
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when it forgets what was consumed.
    async fn open(&self) -> Result<Box<dyn Pages>>;
}

/// An open transcript.
#[async_trait]
pub trait Pages: Send {
    /// About how many messages there are to read, if that is known.
    fn total(&self) -> Option<u64>;

    /// How many messages were there once and have been deleted, as far as the place tells. Asked at the end: some
    /// places tell only with their first message.
    fn deleted(&self) -> u64;

    /// The attributes of the next messages, in the order in which the place took them. None of a message that is no
    /// CloudEvent. An empty page is the end.
    async fn next(&mut self) -> Result<Vec<Attributes>>;
}
