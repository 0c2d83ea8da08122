//! The suite for sinks: the behaviour that a relay relies on when it hands over a batch.

mod envelope;
mod prefix;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, Event, EventId, Outcome, RouteName};
use serde_json::Value;

use super::case::{Case, poll_once, skip};
use super::delivery::{self, Reports, all_confirmed};
use super::sink;
use super::suite::{run_named, table};
use pillarbox_testkit::sample_entry;

pub use envelope::*;
pub use prefix::*;

/// The types of the events that the suite delivers. A registry of handlers must register both.
pub const EVENT_TYPES: [&str; 2] = ["sample.first", "sample.second"];

/// A sink under test, and a way to read what arrived at its destination.
#[async_trait]
pub trait SinkHarness: Send + Sync + 'static {
    /// The sink's name in the output of the suite.
    fn name() -> &'static str
    where
        Self: Sized;

    /// Creates a fresh, empty destination of its own.
    async fn start() -> Self
    where
        Self: Sized;

    /// The sink.
    fn sink(&self) -> Arc<dyn Sink>;

    /// The events that arrived, in the order of arrival, with repetitions.
    async fn received(&self) -> Vec<Received>;

    /// The context of the events that arrived, in the order of arrival: CloudEvents attributes by their bare
    /// names, and the caller's own headers. It has nothing that is meant for the broker only. `None`: this
    /// destination has no envelope, and the cases about it are skipped.
    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        None
    }

    /// Whether the events that arrived can be read. `false` is for a sink that keeps nothing. The cases that
    /// read them are then skipped, and print that they were.
    fn keeps(&self) -> bool {
        true
    }

    /// What the destination refuses. `None`: nothing that the suite could hand over. Default: a payload over the limit
    /// that the sink declares.
    async fn refusal(&self) -> Option<Refusal> {
        let sink = self.sink();
        let limit = sink.capabilities().payload_bytes_max?;
        let of = |payload| Event::new(EVENT_TYPES[0], payload);
        Some(Refusal { sink, taken: of(b"{}".to_vec()), refused: of(vec![b'x'; limit + 1]) })
    }

    /// Whether whitespace between the tokens of a JSON payload is kept. `false` is for a format that embeds
    /// the payload in a JSON object of its own.
    fn keeps_blanks(&self) -> bool {
        true
    }
}

/// What a destination refuses, as a harness tells it.
pub struct Refusal {
    /// A sink to the destination of the harness.
    pub sink: Arc<dyn Sink>,
    /// An event that this sink delivers, whatever its id and key are.
    pub taken: Event,
    /// An event that it does not, while it still delivers the other one.
    pub refused: Event,
}

/// One event as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The idempotency key.
    pub event_id: EventId,
    /// The event type.
    pub event_type: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The payload's bytes.
    pub payload: Vec<u8>,
}

impl Received {
    /// Reads a structured CloudEvents JSON object.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn of_line(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line.get(name).map(|value| value.as_str().unwrap().to_owned());
        let payload = match text("data_base64") {
            Some(encoded) => BASE64_STANDARD.decode(encoded).unwrap(),
            None => serde_json::to_vec(&line["data"]).unwrap(),
        };
        Self {
            event_id: text("id").unwrap().parse().unwrap(),
            event_type: text("type").unwrap(),
            key: text("subject"),
            payload,
        }
    }
}

/// The attributes and headers of a structured CloudEvents JSON object.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn context_of_line(line: &str) -> BTreeMap<String, String> {
    let line: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
    line.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
}

fn id(n: u64) -> EventId {
    EventId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000, 0x8000_0000_0000_0000 | n))
}

fn entry(n: u64, payload: impl Into<Vec<u8>>) -> Entry {
    let event_type = EVENT_TYPES[usize::try_from(n % 2).unwrap()];
    let event = Event::new(event_type, payload).id(id(n)).key(format!("k-{}", n % 3));
    let mut entry = sample_entry(RouteName::new("sample").unwrap(), event);
    entry.seq = i64::try_from(n).unwrap();
    entry
}

fn batch(numbers: impl IntoIterator<Item = u64>) -> Vec<Entry> {
    numbers.into_iter().map(|n| entry(n, format!("{{\"n\":{n}}}"))).collect()
}

/// Delivers, and checks that each entry was reported exactly once.
async fn deliver(harness: &dyn SinkHarness, batch: &[Entry]) -> Vec<Outcome> {
    delivery::deliver(&*harness.sink(), batch).await
}

/// Ends the case, and prints that, where the arrived messages cannot be read.
macro_rules! look {
    ($harness:expr) => {
        if !$harness.keeps() {
            skip("the sink keeps nothing to look at");
            return;
        }
    };
}

use look;

/// Confirmed, each once, and there.
pub async fn every_entry_of_a_batch_is_reported_exactly_once(harness: &dyn SinkHarness) {
    all_confirmed(&deliver(harness, &batch(1..=10)).await);
    if !harness.keeps() {
        return;
    }
    let mut received: Vec<_> =
        harness.received().await.into_iter().map(|received| received.event_id).collect();
    received.sort_unstable();
    assert_eq!(received, (1..=10).map(id).collect::<Vec<_>>());
}

/// Type, key, id and every byte of the payload.
pub async fn what_was_delivered_arrives_unchanged(harness: &dyn SinkHarness) {
    look!(harness);
    let spaced = b" {\"b\": 1,\n \"a\" : 1.0e0}".to_vec();
    let payloads: [Vec<u8>; 8] = [
        if harness.keeps_blanks() { spaced } else { b"{\"a\":1.5,\"b\":1}".to_vec() },
        b"{\"a\":{\"b\":[1,null,\"x\"]}}".to_vec(),
        b"0".to_vec(),
        b"\"\"".to_vec(),
        vec![],
        (0..=255).collect(),
        vec![0xff, 0xfe, 0x00, 0xc3],
        "snow \u{2603} \\ \u{1f600}".as_bytes().to_vec(),
    ];
    let entries: Vec<_> = (1..).zip(payloads).map(|(n, payload)| entry(n, payload)).collect();
    all_confirmed(&deliver(harness, &entries).await);
    let mut received = harness.received().await;
    received.sort_by_key(|received| received.event_id);
    let wanted: Vec<_> = entries
        .into_iter()
        .map(|entry| Received {
            event_id: entry.event_id,
            event_type: entry.event_type,
            key: entry.key,
            payload: entry.payload,
        })
        .collect();
    assert_eq!(received, wanted);
}

/// Nothing in, nothing done.
pub async fn an_empty_batch_is_delivered(harness: &dyn SinkHarness) {
    assert!(deliver(harness, &[]).await.is_empty());
    if !harness.keeps() {
        return;
    }
    assert!(harness.received().await.is_empty());
}

/// A thousand at once, all confirmed.
pub async fn a_large_batch_is_delivered(harness: &dyn SinkHarness) {
    all_confirmed(&deliver(harness, &batch(1..=1000)).await);
    if !harness.keeps() {
        return;
    }
    assert_eq!(harness.received().await.len(), 1000);
}

/// On the happy path a batch arrives in its order, and batches in theirs.
pub async fn order_is_kept_on_the_happy_path(harness: &dyn SinkHarness) {
    look!(harness);
    for start in [1, 21, 41] {
        all_confirmed(&deliver(harness, &batch(start..start + 20)).await);
    }
    let received: Vec<_> = harness.received().await.into_iter().map(|received| received.event_id).collect();
    assert_eq!(received, (1..=60).map(id).collect::<Vec<_>>());
}

/// What is too large is refused for good; its neighbours are confirmed.
pub async fn a_payload_over_the_limit_is_rejected_and_the_rest_confirmed(harness: &dyn SinkHarness) {
    let Some(limit) = harness.sink().capabilities().payload_bytes_max else {
        skip("the sink has no known limit");
        return;
    };
    let entries = [entry(1, "{}"), entry(2, vec![b'x'; limit + 1]), entry(3, vec![b'x'; limit])];
    let outcomes = deliver(harness, &entries).await;
    assert_eq!(outcomes[0], Outcome::Confirmed);
    assert!(matches!(outcomes[1], Outcome::Rejected(_)), "{:?}", outcomes[1]);
    assert_eq!(outcomes[2], Outcome::Confirmed, "exactly at the limit is not over it");
}

/// A delivery that is dropped at any of its first steps leaves the sink as good as new.
pub async fn a_dropped_delivery_leaves_the_sink_usable(harness: &dyn SinkHarness) {
    let dropped = batch(1..=5);
    for polls in 0..5 {
        let sink = harness.sink();
        let reports = Reports::default();
        let mut delivery = pin!(sink.deliver(&dropped, &reports));
        for _ in 0..polls {
            if poll_once(delivery.as_mut()).await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    all_confirmed(&deliver(harness, &batch(11..=15)).await);
    if !harness.keeps() {
        return;
    }
    let received = harness.received().await;
    assert!((11..=15).all(|n| received.iter().any(|received| received.event_id == id(n))));
}

/// The same event again, as after a lost confirmation, is confirmed again.
pub async fn the_same_event_again_is_confirmed_again(harness: &dyn SinkHarness) {
    let entries = batch(1..=3);
    all_confirmed(&deliver(harness, &entries).await);
    all_confirmed(&deliver(harness, &entries).await);
    if !harness.keeps() {
        return;
    }
    let times = if harness.sink().capabilities().deduplicates { 1 } else { 2 };
    assert_eq!(harness.received().await.len(), 3 * times);
}

/// Two deliveries at the same time, as a pipeline makes them, do not mix up their reports.
pub async fn two_deliveries_at_once_report_their_own_entries(harness: &dyn SinkHarness) {
    let (first, second) = (batch(1..=50), batch(101..=130));
    let (left, right) = tokio::join!(deliver(harness, &first), deliver(harness, &second));
    all_confirmed(&left);
    all_confirmed(&right);
    assert_eq!((left.len(), right.len()), (50, 30));
    if !harness.keeps() {
        return;
    }
    assert_eq!(harness.received().await.len(), 80);
}

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __sink_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            sink {
                every_entry_of_a_batch_is_reported_exactly_once,
                what_was_delivered_arrives_unchanged,
                an_empty_batch_is_delivered,
                a_large_batch_is_delivered,
                order_is_kept_on_the_happy_path,
                a_payload_over_the_limit_is_rejected_and_the_rest_confirmed,
                a_dropped_delivery_leaves_the_sink_usable,
                the_same_event_again_is_confirmed_again,
                two_deliveries_at_once_report_their_own_entries,
                every_known_context_field_arrives,
                what_is_not_set_does_not_arrive,
                reserved_names_win_over_the_callers_headers,
                the_transport_key_is_the_ordering_key_or_the_event_id,
                events_of_one_key_are_not_taken_for_repetitions,
                events_of_one_key_arrive_in_their_order,
                nothing_behind_a_refused_entry_of_its_key_is_confirmed_or_arrives,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases() -> Vec<Case<dyn SinkHarness>> {
    crate::__sink_cases!([table] dyn SinkHarness)
}

/// Runs one case by its name on a fresh harness; what `sink_conformance!` expands to.
///
/// # Panics
/// When the sink does not behave as the case says, or no case has this name.
pub fn run<H: SinkHarness>(name: &'static str) {
    run_named(H::name(), &cases(), name, async { Box::new(H::start().await) as Box<dyn SinkHarness> });
}

/// Expands to one test per case of the suite for sinks.
///
/// ```no_run
/// # mod it {
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::{Received, SinkHarness};
/// use pillarbox_core::port::Sink;
/// use pillarbox_testkit::MemorySink;
///
/// struct Harness(MemorySink);
///
/// #[async_trait]
/// impl SinkHarness for Harness {
///     fn name() -> &'static str {
///         "memory sink"
///     }
///
///     async fn start() -> Self {
///         Self(MemorySink::new())
///     }
///
///     fn sink(&self) -> Arc<dyn Sink> {
///         Arc::new(self.0.clone())
///     }
///
///     async fn received(&self) -> Vec<Received> {
///         let received = self.0.received().into_iter().map(|entry| Received {
///             event_id: entry.event_id,
///             event_type: entry.event_type,
///             key: entry.key,
///             payload: entry.payload,
///         });
///         received.collect()
///     }
/// }
///
/// pillarbox_conformance::sink_conformance!(Harness);
/// # }
/// ```
#[macro_export]
macro_rules! sink_conformance {
    ($harness:ty) => {
        $crate::__sink_cases!([$crate::__conformance_tests] $crate::sink::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names};

    #[test]
    fn every_public_case_is_in_the_list() {
        let files = [include_str!("mod.rs"), include_str!("envelope.rs"), include_str!("prefix.rs")];
        let sources = files.map(|source| ("sink", source));
        lists(&crate::__sink_cases!([names]), &sources);
    }
}
