//! The suite for transcripts: the behaviour that `pillarbox verify` relies on when it reads everything in a
//! destination.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Sink, Transcript};
use pillarbox_core::{Error, ErrorKind};

use super::case::{Case, skip};
use super::delivery::{confirm, entries, ids};
use super::suite::{run_named, table};
use super::transcript;

/// A destination that keeps the messages that it received, and how to read all of them.
#[async_trait]
pub trait TranscriptHarness: Send + Sync + Sized + 'static {
    /// The destination's name in the output of the suite.
    const NAME: &'static str;

    /// Creates a fresh, empty destination of its own.
    async fn start() -> Self;

    /// A sink to the destination.
    fn sink(&self) -> Arc<dyn Sink>;

    /// The transcripts of the destination: one for each way to name it, such as the URL of a sink and a URL
    /// of its own.
    fn transcripts(&self) -> Vec<Box<dyn Transcript>>;

    /// Publishes a message that is not an event.
    async fn publish_foreign(&self);

    /// Transcripts of destinations that do not exist.
    fn missing(&self) -> Vec<Box<dyn Transcript>>;

    /// Whether the destination knows exactly how many messages it holds.
    fn tells_total(&self) -> bool {
        true
    }

    /// Deletes the oldest messages and keeps this many. `false`: the harness cannot do that, and the case
    /// prints that it was skipped.
    async fn keep(&self, _messages: usize) -> bool {
        false
    }
}

/// The event ids of all messages that were read, and the number of deleted messages. A message that is not an
/// event has an empty id.
///
/// # Errors
/// Those of the transcript.
pub async fn read(transcript: &dyn Transcript) -> Result<(Vec<String>, u64), Error> {
    let mut pages = transcript.open().await?;
    let mut read = Vec::new();
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok((read, pages.deleted()));
        }
        read.extend(page.into_iter().map(|mut attributes| attributes.remove("id").unwrap_or_default()));
    }
}

/// Fills a destination with more than a page, and something that is no event behind it.
async fn fill<H: TranscriptHarness>(harness: &H) -> Vec<String> {
    let batch = entries(1250);
    confirm(&*harness.sink(), &batch).await;
    harness.publish_foreign().await;
    ids(&batch).iter().map(ToString::to_string).chain([String::new()]).collect()
}

/// Events and all else, without a trace of the reading.
pub async fn everything_is_read_in_order_as_often_as_anybody_wants<H: TranscriptHarness>(harness: &H) {
    let held = fill(harness).await;
    for transcript in harness.transcripts() {
        let total = transcript.open().await.unwrap().total();
        assert!(total == Some(1251) || !harness.tells_total(), "{total:?}");
        for _ in 0..2 {
            assert_eq!(read(&*transcript).await.unwrap(), (held.clone(), 0));
        }
    }
}

/// It is not there any more, but it was.
pub async fn what_was_deleted_is_counted<H: TranscriptHarness>(harness: &H) {
    let mut held = fill(harness).await;
    if !harness.keep(1000).await {
        return skip("the destination does not tell what was deleted");
    }
    let left = held.split_off(251);
    for transcript in harness.transcripts() {
        assert_eq!(read(&*transcript).await.unwrap(), (left.clone(), 251));
    }
}

/// Looking for it does not make it.
pub async fn what_is_not_there_is_not_found_and_not_made<H: TranscriptHarness>(harness: &H) {
    for transcript in harness.missing() {
        for _ in 0..2 {
            let error = transcript.open().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
}

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __transcript_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            transcript {
                everything_is_read_in_order_as_often_as_anybody_wants,
                what_was_deleted_is_counted,
                what_is_not_there_is_not_found_and_not_made,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: TranscriptHarness>() -> Vec<Case<H>> {
    crate::__transcript_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `transcript_conformance!` expands to.
///
/// # Panics
/// When the transcript does not behave as the case says, or no case has this name.
pub fn run<H: TranscriptHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for transcripts.
///
/// ```no_run
/// # mod it {
/// # fn my_sink(url: &str) -> Arc<dyn Sink> { unimplemented!("{url}") }
/// # fn my_transcript(url: &str) -> Box<dyn Transcript> { unimplemented!("{url}") }
/// # async fn my_publish(url: &str, body: &str) { unimplemented!("{body} to {url}") }
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::TranscriptHarness;
/// use pillarbox_core::port::{Sink, Transcript};
///
/// struct Harness {
///     url: String,
/// }
///
/// #[async_trait]
/// impl TranscriptHarness for Harness {
///     const NAME: &'static str = "my broker";
///
///     async fn start() -> Self {
///         Self { url: format!("mine://127.0.0.1:7000/orders-{}", pillarbox_host::random_u64()) }
///     }
///
///     fn sink(&self) -> Arc<dyn Sink> {
///         my_sink(&self.url)
///     }
///
///     fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
///         vec![my_transcript(&self.url)]
///     }
///
///     async fn publish_foreign(&self) {
///         my_publish(&self.url, "no event").await;
///     }
///
///     fn missing(&self) -> Vec<Box<dyn Transcript>> {
///         vec![my_transcript("mine://127.0.0.1:7000/never-made")]
///     }
/// }
///
/// pillarbox_conformance::transcript_conformance!(Harness);
/// # }
/// ```
#[macro_export]
macro_rules! transcript_conformance {
    ($harness:ty) => {
        $crate::__transcript_cases!([$crate::__conformance_tests] $crate::transcript::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names};

    #[test]
    fn every_public_case_is_in_the_list() {
        lists(&crate::__transcript_cases!([names]), &[("transcript", include_str!("transcript.rs"))]);
    }
}
