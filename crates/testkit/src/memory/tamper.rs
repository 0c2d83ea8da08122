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
    /// The current time of the store's own clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.database_now()
    }

    /// Moves the store's own clock forward. The clock that the store was given does not change.
    pub fn advance_clock(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.shared.ahead_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// From now on no audit record can be written.
    pub fn fail_audit(&self) {
        self.shared.lock().audit_fails = true;
    }

    /// From now on audit records can be written again.
    pub fn repair_audit(&self) {
        self.shared.lock().audit_fails = false;
    }

    /// Makes the headers of this event unreadable.
    pub fn spoil_headers(&self, id: EventId) {
        for row in self.shared.lock().rows.values_mut().filter(|row| row.entry.event_id == id) {
            row.entry.headers = Headers::new();
            row.spoiled = true;
        }
    }

    /// Deletes the rows of this event.
    pub fn delete_entry(&self, id: EventId) {
        let mut state = self.shared.lock();
        for seq in seqs(&state, id) {
            state.remove(seq);
        }
    }

    /// Puts the rows of this event in flight without an end of their lease.
    pub fn forget_lease_end(&self, id: EventId) {
        for row in self.shared.lock().rows.values_mut().filter(|row| row.entry.event_id == id) {
            row.entry.status = Status::InFlight;
            row.entry.due_at = None;
        }
    }

    /// Locks the rows of this event, as another transaction would.
    pub fn lock_entry(&self, id: EventId) {
        let mut state = self.shared.lock();
        let seqs = seqs(&state, id);
        state.locked.extend(seqs);
    }

    /// Unlocks all rows.
    pub fn unlock_entries(&self) {
        self.shared.lock().locked.clear();
    }

    /// Stages an event as a plain INSERT does: without a stamp, and with defaults for everything else.
    /// `false`: it was refused.
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
