//! What the harness of the conformance suites does behind the store's back, as tests of a database do by SQL.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox_core::{
    CONTENT_TYPE_DEFAULT, Event, EventId, EventLimits, Headers, NewEntry, RouteName, Status, Timestamp,
};

use super::outbox::row_of;
use super::state::{Key, Row, State};
use super::store::MemoryStore;

#[doc(hidden)]
impl MemoryStore {
    /// The time by the store's own clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.database_now()
    }

    /// Moves the store's own clock on; the one that it was given stays.
    pub fn advance_clock(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.shared.ahead_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// No audit record can be written any more.
    pub fn fail_audit(&self) {
        self.shared.lock().audit_fails = true;
    }

    /// Audit records can be written again.
    pub fn repair_audit(&self) {
        self.shared.lock().audit_fails = false;
    }

    /// The headers of this event cannot be read any more.
    pub fn spoil_headers(&self, id: EventId) {
        for row in self.shared.lock().rows.values_mut().filter(|row| row.entry.event_id == id) {
            row.entry.headers = Headers::new();
            row.spoiled = true;
        }
    }

    /// Takes the rows of this event away.
    pub fn delete_entry(&self, id: EventId) {
        let mut state = self.shared.lock();
        for seq in seqs(&state, id) {
            state.remove(seq);
        }
    }

    /// The rows of this event are in flight, and nobody knows until when.
    pub fn forget_lease_end(&self, id: EventId) {
        for row in self.shared.lock().rows.values_mut().filter(|row| row.entry.event_id == id) {
            row.entry.status = Status::InFlight;
            row.entry.due_at = None;
        }
    }

    /// Another transaction holds a lock on the rows of this event.
    pub fn lock_entry(&self, id: EventId) {
        let mut state = self.shared.lock();
        let seqs = seqs(&state, id);
        state.locked.extend(seqs);
    }

    /// No row is locked any more.
    pub fn unlock_entries(&self) {
        self.shared.lock().locked.clear();
    }

    /// As a plain INSERT does: no stamp, and everything else by default. `false`: it was refused.
    #[must_use]
    pub fn stage_plain(&self, route: &str, event: Event) -> bool {
        let state = &mut *self.shared.lock();
        let now = self.shared.clock.now();
        let Ok(route) = RouteName::new(route) else { return false };
        let stamp = self.shared.stamps.now();
        let fresh_id = state.fresh_id(now);
        let event = event.content_type(CONTENT_TYPE_DEFAULT);
        let new = NewEntry::new(&route, event, fresh_id, stamp, &EventLimits::default());
        let Ok(new) = new else { return false };
        let seq = state.next_seq();
        state.taken.insert(Key::Staged(new.route.clone(), new.event_id));
        let mut entry = row_of(new, seq, now);
        entry.hlc = None;
        state.rows.insert(seq, Row::new(entry));
        true
    }
}

fn seqs(state: &State, id: EventId) -> Vec<i64> {
    state.rows.iter().filter(|(_, row)| row.entry.event_id == id).map(|(seq, _)| *seq).collect()
}
