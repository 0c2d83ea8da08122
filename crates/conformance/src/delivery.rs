//! Helpers for the tests of every sink: make entries, deliver them, and check their outcomes.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, ErrorKind, Event, EventId, Failure, Outcome, Result, RouteName};

use pillarbox_testkit::sample_entry;

/// A generous timeout that only guards against hanging.
pub const SOON: Duration = Duration::from_secs(60);

/// Collects the reports of one batch.
#[derive(Default)]
pub struct Reports(Mutex<Vec<(usize, Outcome)>>);

impl Report for Reports {
    fn outcome(&self, index: usize, outcome: Outcome) {
        self.0.lock().unwrap().push((index, outcome));
    }
}

impl Reports {
    /// The outcomes that were reported so far, in the order of the batch.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Outcome> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// The outcomes in the order of the batch. Asserts that each entry has exactly one.
    #[must_use]
    #[track_caller]
    pub fn of(self, batch: &[Entry]) -> Vec<Outcome> {
        let outcomes = self.outcomes();
        let mut indexes: Vec<_> = self.0.into_inner().unwrap().iter().map(|(index, _)| *index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, (0..batch.len()).collect::<Vec<_>>(), "each entry is reported once");
        outcomes
    }
}

/// Delivers a batch, and returns one outcome per entry, in the order of the batch. It never hangs.
pub async fn deliver(sink: &dyn Sink, batch: &[Entry]) -> Vec<Outcome> {
    let reports = Reports::default();
    tokio::time::timeout(SOON, sink.deliver(batch, &reports)).await.expect("the delivery hangs");
    reports.of(batch)
}

/// Delivers a batch of one entry, and returns its outcome.
pub async fn deliver_one(sink: &dyn Sink, entry: &Entry) -> Outcome {
    deliver(sink, slice::from_ref(entry)).await.remove(0)
}

/// Delivers a batch, and asserts that every entry is confirmed.
pub async fn confirm(sink: &dyn Sink, batch: &[Entry]) {
    all_confirmed(&deliver(sink, batch).await);
}

/// Asserts that every outcome is a confirmation.
#[track_caller]
pub fn all_confirmed(outcomes: &[Outcome]) {
    for (index, outcome) in outcomes.iter().enumerate() {
        assert_eq!(*outcome, Outcome::Confirmed, "entry {index}");
    }
}

/// Asserts that the outcome has this kind and this code, such as `down/denied`.
#[track_caller]
pub fn assert_outcome<'a>(outcome: &'a Outcome, kind_and_code: &str) -> &'a Failure {
    let Some(failure) = outcome.failure() else { panic!("{outcome:?}, not {kind_and_code}") };
    assert!(failure.to_string().starts_with(&format!("{kind_and_code}:")), "{failure}, not {kind_and_code}");
    failure
}

/// The failure of an outcome that must be down.
#[track_caller]
pub fn down(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Down(failure) => failure,
        other => panic!("down was expected, not {other:?}"),
    }
}

/// The failure of an outcome that must be busy.
#[track_caller]
pub fn busy(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Busy { failure, .. } => failure,
        other => panic!("busy was expected, not {other:?}"),
    }
}

/// The failure of an outcome that must be rejected.
#[track_caller]
pub fn rejected(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Rejected(failure) => failure,
        other => panic!("rejected was expected, not {other:?}"),
    }
}

/// Asserts that the result is refused as invalid, for this reason.
#[track_caller]
pub fn assert_invalid<T: std::fmt::Debug>(read: Result<T>, why: &str) {
    let error = read.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(why), "{error}");
}

/// A random number, another one in every run.
#[must_use]
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A name that no other test has.
#[must_use]
pub fn fresh(prefix: &str) -> String {
    format!("{prefix}{:016x}", random())
}

/// An event id that no other test has. Ids of one process grow with each call.
#[must_use]
pub fn fresh_id() -> EventId {
    static RUN: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = *RUN.get_or_init(random);
    EventId(uuid::Uuid::from_u64_pair(run, NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// The claimed entry of an event. If the event has no id, it gets one of its own.
#[must_use]
pub fn entry(event: Event) -> Entry {
    let id = event.id.unwrap_or_else(fresh_id);
    sample_entry(RouteName::new("orders").unwrap(), event.id(id))
}

/// Entries of one type with small payloads.
#[must_use]
pub fn entries_of(event_type: &str, count: usize) -> Vec<Entry> {
    (0..count).map(|n| entry(Event::new(event_type, format!("{{\"n\":{n}}}")))).collect()
}

/// Entries with small payloads.
#[must_use]
pub fn entries(count: usize) -> Vec<Entry> {
    entries_of("order.placed", count)
}

/// The event ids of a batch, in its order.
#[must_use]
pub fn ids(batch: &[Entry]) -> Vec<EventId> {
    batch.iter().map(|entry| entry.event_id).collect()
}
