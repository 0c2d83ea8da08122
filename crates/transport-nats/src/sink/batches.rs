//! Which streams store several messages as a whole or not at all: the atomic batches of JetStream.
//!
//! An older server would store the messages of such a batch one by one, and go on behind one that it refuses. So a
//! batch is sent only to a stream that has said, over the same connection, that it takes batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::connection::Live;
use crate::options::Options;
use crate::source;

/// The first version of the server that has atomic batches.
const SERVER_MIN: (i64, i64, i64) = (2, 12, 0);
/// Most messages of a batch, as servers come with it.
const MESSAGES_MAX: usize = 1000;
/// Batches on their way at once. The server allows a stream 50, whoever sends them.
const BATCHES_MAX: usize = 8;
/// After this time a stream is asked again: its settings may have changed.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Most streams and subjects that are remembered.
const KNOWN_MAX: usize = 256;

/// What is known of the streams of one connection.
pub(crate) struct Batches {
    /// Locked while a question is under way, so that all who need the answer share it.
    known: Mutex<Vec<Arc<Known>>>,
    turns: Semaphore,
}

/// A stream, or a subject of which no stream is known.
pub(super) struct Known {
    subjects: Vec<String>,
    /// Most messages of a batch. None: 0.
    messages_max: AtomicUsize,
    /// How long a batch takes, in nanoseconds; or [`UNTRIED`], or [`ON_TRIAL`].
    batch_nanos: AtomicU64,
    until: Instant,
}

/// Nobody knows how long a batch takes.
const UNTRIED: u64 = 0;
/// Nobody knows how long a batch takes, and one is on its way to find out.
const ON_TRIAL: u64 = u64::MAX;

impl Batches {
    pub(crate) fn new() -> Self {
        Self { known: Mutex::default(), turns: Semaphore::new(BATCHES_MAX) }
    }

    /// The stream that takes this subject, if it also takes batches.
    pub(super) async fn stream(&self, live: &Live, options: &Options, subject: &str) -> Option<Arc<Known>> {
        let (major, minor, patch) = SERVER_MIN;
        if !live.client().is_server_compatible(major, minor, patch) {
            return None;
        }
        let mut known = self.known.lock().await;
        let now = Instant::now();
        known.retain(|stream| stream.until > now);
        let found = known.iter().find(|stream| stream.takes(subject)).cloned();
        let stream = match found {
            Some(stream) => stream,
            None => {
                let stream = Arc::new(ask(live, options, subject).await);
                if known.len() >= KNOWN_MAX {
                    known.clear();
                }
                known.push(Arc::clone(&stream));
                stream
            }
        };
        (stream.messages_max() > 0).then_some(stream)
    }

    /// Waits until one more batch may be on its way.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }
}

impl Known {
    fn new(subjects: Vec<String>, messages_max: usize) -> Self {
        let (messages_max, batch_nanos) = (AtomicUsize::new(messages_max), AtomicU64::new(UNTRIED));
        Self { subjects, messages_max, batch_nanos, until: Instant::now() + KNOWN_FOR }
    }

    pub(super) fn takes(&self, subject: &str) -> bool {
        self.subjects.iter().any(|pattern| matches(pattern, subject))
    }

    pub(super) fn messages_max(&self) -> usize {
        self.messages_max.load(Ordering::Relaxed)
    }

    /// Whether a batch of this many messages is sooner stored than one after the other, each of which takes this long.
    ///
    /// A stream on disk that is not replicated keeps an open batch in files of its own, which may take longer than hundreds
    /// of confirmations on the same machine. Over a network it is the other way round. So it is measured.
    pub(super) fn is_worth(&self, messages: usize, single: Duration) -> bool {
        match self.batch_nanos.load(Ordering::Relaxed) {
            UNTRIED => true,
            ON_TRIAL => false,
            batch => nanos(single).saturating_mul(messages as u64) > batch,
        }
    }

    /// Whether a batch may be sent. The first one is sent to find out how long it takes, and nobody else sends one meanwhile.
    pub(super) fn start(&self) -> bool {
        let relaxed = Ordering::Relaxed;
        self.batch_nanos.compare_exchange(UNTRIED, ON_TRIAL, relaxed, relaxed) != Err(ON_TRIAL)
    }

    /// A batch was stored and took this long.
    pub(super) fn stored(&self, took: Duration) {
        let average = |before: u64| match before {
            UNTRIED | ON_TRIAL => nanos(took),
            before => before / 4 * 3 + nanos(took) / 4,
        };
        let relaxed = Ordering::Relaxed;
        let _ = self.batch_nanos.fetch_update(relaxed, relaxed, |before| Some(average(before).max(1)));
    }

    /// The stream refused a batch of this many messages. Nothing of it was stored.
    pub(super) fn refused(&self, code: Option<ErrorCode>, messages: usize) {
        let relaxed = Ordering::Relaxed;
        let _ = self.batch_nanos.compare_exchange(ON_TRIAL, UNTRIED, relaxed, relaxed);
        let messages_max = match code {
            Some(ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH) => messages / 2,
            // The stream does not take batches any more, or the server none with ids of messages.
            Some(ErrorCode::ATOMIC_PUBLISH_DISABLED | ErrorCode::ATOMIC_PUBLISH_UNSUPPORTED_HEADER) => 0,
            // One of the messages is the reason, or all that is under way at this moment.
            _ => return,
        };
        self.messages_max.fetch_min(messages_max, Ordering::Relaxed);
    }
}

/// Asks for the stream of this subject. Without an answer, it counts as one that takes no batches.
async fn ask(live: &Live, options: &Options, subject: &str) -> Known {
    let mut denials = live.denials();
    let asked = tokio::time::timeout(options.connect_timeout, source::stream(live, options, subject));
    let asked = tokio::select! {
        biased;
        asked = asked => asked.ok().and_then(Result::ok),
        // The server does not answer what it refuses.
        () = denials.until(|denied| denied.starts_with("$JS.API.")) => None,
    };
    if let Some(stream) = asked {
        let config = &stream.cached_info().config;
        let messages_max = if config.allow_atomic_publish { MESSAGES_MAX } else { 0 };
        let known = Known::new(config.subjects.clone(), messages_max);
        if known.takes(subject) {
            return known;
        }
    }
    Known::new(vec![subject.to_owned()], 0)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// Whether a subject is one of those that a pattern stands for.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in pattern.split('.') {
        match tokens.next() {
            None => return false,
            Some(_) if wanted == ">" => return true,
            Some(token) if wanted != "*" && wanted != token => return false,
            Some(_) => {}
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_subjects_as_the_server_reads_it() {
        for (pattern, subject, wanted) in [
            ("orders", "orders", true),
            ("orders", "orders.placed", false),
            ("orders.>", "orders", false),
            ("orders.>", "orders.placed.eu", true),
            ("orders.*", "orders.placed", true),
            ("orders.*", "orders.placed.eu", false),
            ("*.placed", "orders.placed", true),
            ("*.placed", "orders.paid", false),
            (">", "orders", true),
        ] {
            assert_eq!(matches(pattern, subject), wanted, "{pattern} {subject}");
        }
    }

    #[test]
    fn what_a_stream_refuses_as_a_batch_is_not_sent_as_one_again() {
        let known = |code, messages| {
            let stream = Known::new(vec![], 1000);
            stream.refused(Some(code), messages);
            stream.messages_max()
        };
        assert_eq!(known(ErrorCode::ATOMIC_PUBLISH_DISABLED, 400), 0);
        assert_eq!(known(ErrorCode::ATOMIC_PUBLISH_UNSUPPORTED_HEADER, 400), 0);
        assert_eq!(known(ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH, 400), 200);
        assert_eq!(known(ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE, 400), 1000);
    }

    #[test]
    fn a_batch_is_sent_where_it_is_sooner_stored_than_one_by_one() {
        let (stream, millis) = (Known::new(vec![], 1000), Duration::from_millis);
        assert!(stream.is_worth(2, millis(1)) && stream.start(), "the first one, to find out");
        assert!(!stream.is_worth(1000, millis(1)) && !stream.start(), "while it is on its way");
        stream.refused(None, 2);
        assert!(stream.is_worth(2, millis(1)) && stream.start(), "nothing was found out");
        stream.stored(millis(100));
        assert!(stream.is_worth(101, millis(1)) && stream.start() && !stream.is_worth(100, millis(1)));
        (0..50).for_each(|_| stream.stored(millis(10)));
        assert!(stream.is_worth(12, millis(1)) && !stream.is_worth(9, millis(1)));
    }
}
