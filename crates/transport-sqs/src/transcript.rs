//! What was sent cannot be read back: a queue keeps no record of what was deleted.

use async_trait::async_trait;
use pillarbox_core::port::{Pages, Transcript};
use pillarbox_core::{Error, ErrorKind, Result, RouteName};

use crate::options::Options;

/// The transcript of a queue, which cannot be opened. Reading from a queue of SQS takes messages away from its
/// consumers, and what they have deleted is gone. So there is nothing to compare with the staged events.
pub struct SqsTranscript(());

impl SqsTranscript {
    /// The transcript of this URL, such as `sqs://eu-west-1/orders`. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_transcript(url)?)
    }

    /// The transcript of the queues to which a sink of this URL delivers the entries of a route. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL that is wrong.
    pub fn of_sink(url: &str, _route: &RouteName) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?)
    }

    /// A transcript with these settings. It cannot be opened.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), naming the setting that cannot work.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(()))
    }
}

#[async_trait]
impl Transcript for SqsTranscript {
    async fn open(&self) -> Result<Box<dyn Pages>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "SQS keeps no record of the messages that were consumed, and reading from a queue would take messages \
             away from its consumers, so nothing is read. Let a consumer write one CloudEvents JSON object per line, \
             and compare with that file: pillarbox verify --from file:PATH",
        ))
    }
}
