//! The messages that a destination has received and still holds, to be compared with the staged events.

use async_trait::async_trait;

use crate::error::Result;
use crate::received::Attributes;

/// A place of a destination, such as a stream, whose messages stay after they were read. It can be read from its
/// beginning as often as needed, and its consumers do not notice.
#[async_trait]
pub trait Transcript: Send + Sync {
    /// Opens the transcript at the oldest message. Messages that arrive after this call may be left out.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the place is not there, and
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when it forgets what was consumed.
    async fn open(&self) -> Result<Box<dyn Pages>>;
}

/// An open transcript.
#[async_trait]
pub trait Pages: Send {
    /// About how many messages there are to read. `None`: not known.
    fn total(&self) -> Option<u64>;

    /// How many messages were there once and have been deleted, as far as the place tells. Ask at the end: some
    /// places tell only with their first message.
    fn deleted(&self) -> u64;

    /// The attributes of the next messages, in the order in which the place took them. For a message that is not a
    /// CloudEvent, the attributes are empty. An empty page is the end.
    async fn next(&mut self) -> Result<Vec<Attributes>>;
}
