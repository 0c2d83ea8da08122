//! Staging in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Buffer, Stage, Wake};
use pillarbox_core::{
    Entry, Error, ErrorKind, Event, EventId, EventLimits, Fence, HybridClock, NewEntry, Result, RouteName,
    Staged, Status, Timestamp,
};

use super::clock::{ManualClock, origin};
use super::state::{Key, Row};
use super::store::{MemoryStore, Shared};
use super::tx::{MemoryTx, Write};

/// Stages events of one route in transactions of a [`MemoryStore`].
///
/// Each call takes the transaction, so staging outside of a transaction does not compile:
///
/// ```compile_fail,E0308
/// # async fn outside(mut store: pillarbox_testkit::MemoryStore) {
/// let outbox = pillarbox_testkit::MemoryOutbox::new(&store, "orders");
/// outbox.stage(&mut store, pillarbox_core::Event::new("order.placed", "{}")).await;
/// # }
/// ```
pub struct MemoryOutbox {
    pub(super) shared: Arc<Shared>,
    pub(super) route: String,
    pub(super) limits: EventLimits,
    wake: Option<Arc<dyn Wake>>,
}

impl MemoryOutbox {
    /// An outbox of this route. If the route breaks a rule, staging refuses it.
    pub fn new(store: &MemoryStore, route: impl Into<String>) -> Self {
        let shared = Arc::clone(&store.shared);
        Self { shared, route: route.into(), limits: EventLimits::default(), wake: None }
    }

    /// Sets the limits of an event.
    #[must_use]
    pub fn limits(mut self, limits: EventLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the relay that [`commit`](Self::commit) wakes.
    #[must_use]
    pub fn wake(mut self, wake: Arc<dyn Wake>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Stages one event.
    ///
    /// # Errors
    /// When the event or the route is out of bounds.
    pub async fn stage(&self, tx: &mut MemoryTx, event: Event) -> Result<Staged> {
        let staged = self.stage_all(tx, vec![event]).await?;
        let missing = || Error::new(ErrorKind::Internal, "one event was staged without an outcome");
        staged.into_iter().next().ok_or_else(missing)
    }

    /// Runs an operation in a transaction of the store, stages the events of its buffer, and commits. An
    /// error rolls everything back. The outboxes of databases have the same method.
    ///
    /// # Errors
    /// Those of the operation, and those of staging.
    pub async fn transaction<T, E: From<Error>>(
        &self,
        store: &MemoryStore,
        work: impl AsyncFnOnce(&mut MemoryTx, &mut Buffer) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut tx, mut buffer) = (store.begin(), Buffer::new());
        let done = work(&mut tx, &mut buffer).await?;
        buffer.flush_rest(self, &mut tx).await?;
        self.commit(tx);
        Ok(done)
    }

    /// Commits, then wakes a relay of the same process.
    pub fn commit(&self, tx: MemoryTx) {
        tx.commit();
        if let Some(wake) = &self.wake {
            wake.wake();
        }
    }
}

#[async_trait]
impl Stage<MemoryTx> for MemoryOutbox {
    async fn stage_all(&self, tx: &mut MemoryTx, events: Vec<Event>) -> Result<Vec<Staged>> {
        tx.check_store(&self.shared)?;
        let route = RouteName::new(self.route.clone())?;
        let now = self.shared.clock.now();
        let mut entries = Vec::with_capacity(events.len());
        for event in events {
            let fresh_id = self.shared.lock().fresh_id(now);
            entries.push(NewEntry::new(&route, event, fresh_id, self.shared.stamps.now(), &self.limits)?);
        }
        let keys: Vec<Key> = entries.iter().map(key_of).collect();
        tx.write(&keys, |state, exists| {
            let mut writes: Vec<Write> = Vec::with_capacity(entries.len());
            let mut here = std::collections::BTreeSet::new();
            let mut staged = Vec::with_capacity(entries.len());
            for entry in entries {
                let (key, event_id) = (key_of(&entry), entry.event_id);
                if exists(state, &key) || !here.insert(key.clone()) {
                    staged.push(Staged::Duplicate(event_id));
                    continue;
                }
                let row = Row::new(row_of(entry, state.next_seq(), now));
                writes.push(Write::Row(key, Box::new(row)));
                staged.push(Staged::Fresh(event_id));
            }
            (writes, staged)
        })
        .await
    }
}

fn key_of(entry: &NewEntry) -> Key {
    Key::Staged(entry.route.clone(), entry.event_id)
}

/// A new entry as it is stored.
pub(crate) fn row_of(entry: NewEntry, seq: i64, now: Timestamp) -> Entry {
    let event = entry.event;
    let mut row = Entry::new(seq, entry.event_id, entry.route, event.event_type, now);
    row.key = event.key;
    row.payload = event.payload;
    row.content_type = event.content_type;
    row.headers = event.headers;
    row.tenant = event.tenant;
    row.correlation_id = event.correlation_id;
    row.causation_id = event.causation_id;
    row.execution_id = event.execution_id;
    row.occurred_at = event.occurred_at;
    row.priority = event.priority;
    row.group_id = event.group_id;
    row.hlc = Some(entry.hlc);
    row.max_attempts = event.max_attempts;
    row.due_at = event.delay.filter(|delay| !delay.is_zero()).map(|delay| now.saturating_add(delay));
    row
}

/// The claimed entry of this event, as a relay hands it to a sink, without any store.
///
/// Its id is the event's own id. If the event has none, it is a fixed id.
#[must_use]
pub fn sample_entry(route: RouteName, event: Event) -> Entry {
    let now = origin();
    let event_id = event.id.unwrap_or(EventId(uuid::Uuid::from_u64_pair(0x019b_76da_a800_7000, 1 << 63)));
    let stamps = HybridClock::new(Arc::new(ManualClock::new(now)), std::time::Duration::from_secs(1));
    let mut entry = row_of(NewEntry { event_id, route, event, hlc: stamps.now() }, 1, now);
    entry.status = Status::InFlight;
    entry.attempts = 1;
    entry.fence = Fence::NONE.next(now);
    entry.owner = Some("sample".into());
    entry.last_attempt_at = Some(now);
    entry
}
