//! The order checker: a relay by lanes delivers to a sink while what it writes fails in the middle. Each key must arrive in
//! the order in which it was staged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::limits::PAYLOAD_BYTES_MAX;
use pillarbox_core::port::{Lanes, Report, Sink, SinkCapabilities};
use pillarbox_core::{Backoff, Entry, Event, EventId, EventLimits, Failure, Jitter, OnDead, Outcome, Status};
use pillarbox_engine::{Relay, RelayOptions};
use pillarbox_testkit::{Direction, Fault, FaultProxy, MemoryOutbox, MemoryStore, eventually};
use tokio::sync::oneshot;

use crate::delivery::SOON;

/// Entries of one round: half of them of one key, the others of nine.
pub const ENTRIES: usize = 400;

/// What goes wrong while the relay delivers, in rounds that begin with 1.
pub trait Trouble {
    /// Begins before the entries of the round are staged.
    fn begin(&self, round: u64) -> impl Future<Output = ()>;

    /// Whether it has come to what was begun.
    fn has_come(&self, round: u64) -> bool;

    /// Nothing goes wrong any more.
    fn end(&self) -> impl Future<Output = ()>;

    /// The payload of an entry of the round.
    fn payload(&self, _round: u64, n: usize) -> Vec<u8> {
        format!("{{\"n\":{n}}}").into_bytes()
    }
}

/// Connections are cut in the middle of what they carry: in even rounds to the server, in odd ones back.
impl Trouble for FaultProxy {
    async fn begin(&self, round: u64) {
        let bytes = 1_000 + 9_999 * round;
        let direction = if round.is_multiple_of(2) { Direction::ToServer } else { Direction::ToClient };
        let bytes = if round.is_multiple_of(2) { bytes } else { bytes / 50 };
        self.set(Fault::CutAfter { direction, bytes });
    }

    fn has_come(&self, round: u64) -> bool {
        self.broken() >= round
    }

    async fn end(&self) {
        self.heal();
    }
}

/// Hands everything on to a sink, and counts the failures that it reports.
pub struct CountingSink {
    sink: Arc<dyn Sink>,
    failures: Mutex<BTreeMap<String, u64>>,
}

impl CountingSink {
    /// Counts the failures of this sink.
    #[must_use]
    pub fn of(sink: impl Sink + 'static) -> Arc<Self> {
        Arc::new(Self { sink: Arc::new(sink), failures: Mutex::default() })
    }

    /// How many failures had this code.
    #[must_use]
    pub fn failures(&self, code: &str) -> u64 {
        self.failures.lock().unwrap().get(code).copied().unwrap_or_default()
    }
}

struct Counting<'a>(&'a CountingSink, &'a dyn Report);

impl Report for Counting<'_> {
    fn outcome(&self, index: usize, outcome: Outcome) {
        if let Some(failure) = outcome.failure() {
            *self.0.failures.lock().unwrap().entry(failure.code().to_owned()).or_default() += 1;
        }
        self.1.outcome(index, outcome);
    }
}

#[async_trait]
impl Sink for CountingSink {
    fn capabilities(&self) -> SinkCapabilities {
        self.sink.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        self.sink.deliver(batch, &Counting(self, report)).await;
    }
}

/// Relays so many rounds to this sink, until every entry is delivered or dead. A dead one holds back nothing. Returns the
/// entries in the order in which they were staged.
pub async fn relay_through(trouble: &impl Trouble, rounds: u64, sink: Arc<dyn Sink>) -> Vec<Entry> {
    let short = |max| Backoff::new(Duration::from_millis(5), max, Jitter::None).unwrap();
    let mut options = RelayOptions::broker();
    options.circuit = short(Duration::from_millis(50));
    options.backoff = short(Duration::from_millis(20));
    options.max_attempts = 1000;
    options.on_dead = OnDead::Skip;
    let store = MemoryStore::new();
    let lanes = Arc::new(store.clone()) as Arc<dyn Lanes>;
    let relay = Relay::ordered(lanes, sink).route("orders").options(options).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let story = async {
        for round in 1..=rounds {
            trouble.begin(round).await;
            stage(&store, |n| trouble.payload(round, n)).await;
            relay.handle().wake();
            eventually(SOON, async || trouble.has_come(round)).await;
        }
        trouble.end().await;
        let is_done = |entry: &Entry| matches!(entry.status, Status::Delivered | Status::Dead);
        eventually(SOON, async || store.entries().iter().all(is_done)).await;
        drop(stop);
    };
    let (result, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), story);
    result.unwrap();
    let mut entries = store.entries();
    entries.sort_by_key(|entry| entry.seq);
    entries
}

async fn stage(store: &MemoryStore, payload: impl Fn(usize) -> Vec<u8>) {
    // What a destination finds too large must get there.
    let limits = EventLimits::default().payload_bytes(PAYLOAD_BYTES_MAX);
    let outbox = MemoryOutbox::new(store, "orders").limits(limits);
    let mut tx = store.begin();
    for n in 0..ENTRIES {
        let key = if n.is_multiple_of(2) { "hot".to_owned() } else { format!("k-{}", n % 9) };
        outbox.stage(&mut tx, Event::new("order.placed", payload(n)).key(key)).await.unwrap();
    }
    tx.commit();
}

/// Asserts that these entries are dead with this code, and that no other one is dead.
#[track_caller]
pub fn check_dead(entries: &[Entry], code: &str, is_dead: impl Fn(&Entry) -> bool) {
    for entry in entries {
        let told = entry.last_error.as_ref().map(Failure::code);
        assert_eq!(entry.status == Status::Dead, is_dead(entry), "{told:?}");
        assert!(entry.status != Status::Dead || told == Some(code), "{told:?} and not {code}");
    }
}

/// How often what was delivered may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The destination knows what it has.
    One,
    /// After a lost confirmation there is another one. The first one counts for the order.
    Several,
}

/// Asserts that every delivered entry is among what was received, and each key in its order; and that no dead one is there.
#[track_caller]
pub fn check_order(entries: &[Entry], received: &[EventId], copies: Copies) {
    let mut found: BTreeMap<EventId, Vec<usize>> = BTreeMap::new();
    for (place, id) in received.iter().enumerate() {
        found.entry(*id).or_default().push(place);
    }
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for entry in entries {
        let of_entry = found.remove(&entry.event_id).unwrap_or_default();
        if entry.status == Status::Dead {
            assert!(of_entry.is_empty(), "a dead entry was delivered");
            continue;
        }
        assert!(!of_entry.is_empty(), "an entry is lost");
        assert!(
            copies == Copies::Several || of_entry.len() == 1,
            "an entry is there {} times",
            of_entry.len()
        );
        places.entry(entry.key.as_deref().unwrap_or_default()).or_default().extend(of_entry.first());
    }
    assert!(found.is_empty(), "{} were invented", found.len());
    for (key, places) in places {
        assert!(places.is_sorted(), "out of order: {key} is at {places:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::entry;

    fn delivered(key: &str) -> Entry {
        let mut entry = entry(Event::new("t", "{}").key(key));
        entry.status = Status::Delivered;
        entry
    }

    #[test]
    fn a_key_in_its_order_passes_wherever_the_others_are() {
        let entries = ["a", "b", "a"].map(delivered);
        let ids = entries.each_ref().map(|entry| entry.event_id);
        check_order(&entries, &[ids[1], ids[0], ids[2]], Copies::One);
        check_order(&entries, &[ids[0], ids[2], ids[0], ids[1]], Copies::Several);
    }

    #[test]
    #[should_panic(expected = "out of order: a is at [1, 0]")]
    fn a_key_out_of_order_is_found() {
        let entries = ["a", "a"].map(delivered);
        check_order(&entries, &[entries[1].event_id, entries[0].event_id], Copies::One);
    }

    #[test]
    #[should_panic(expected = "an entry is lost")]
    fn a_lost_entry_is_found() {
        let entries = ["a", "a"].map(delivered);
        check_order(&entries, &[entries[1].event_id], Copies::One);
    }

    #[test]
    #[should_panic(expected = "an entry is there 2 times")]
    fn a_second_copy_is_found_where_there_can_be_none() {
        let entries = [delivered("a")];
        check_order(&entries, &[entries[0].event_id; 2], Copies::One);
    }
}
