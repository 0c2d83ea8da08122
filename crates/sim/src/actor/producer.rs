//! A producer: writes a ledger row and events in one transaction, and commits it or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::port::{AcceptRequest, Inbox, Stage};
use pillarbox_core::{Entry, Event, EventId, Hlc, HybridClock, Result, Staged, lane_of};

use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::super::world::{LEDGER, ROUTE, World};
use super::{event_id, payload_of};
use pillarbox_testkit::{JumpingClock, MemoryInbox, MemoryOutbox, MemoryTx};

/// How far ahead a remote stamp may be before a producer refuses it.
const DRIFT_MAX: Duration = Duration::from_secs(1);

struct Producer<'a> {
    world: &'a World,
    who: String,
    rng: Rng,
    outbox: MemoryOutbox,
    ledger: MemoryInbox,
    stamps: HybridClock,
    last_stamp: Option<Hlc>,
    /// Draws what only worlds by lanes have.
    keys: Rng,
    ids_made: u32,
    number: u32,
}

/// What a transaction wrote.
#[derive(Default)]
struct Written {
    fresh: Vec<EventId>,
    duplicates: Vec<EventId>,
    /// How much had happened when each fresh one was staged.
    staged: Vec<usize>,
}

pub(crate) async fn produce(world: &World, number: u32) {
    let who = format!("producer-{number}");
    let mut rng = world.rng.fork(&who);
    let mut outbox = MemoryOutbox::new(&world.store, ROUTE);
    if world.plan.wakes {
        outbox = outbox.wake(Arc::clone(&world.wakers) as _);
    }
    let keys = rng.fork("keys");
    // Producers run on machines whose clocks differ.
    let ahead = i64::try_from(rng.between(0..=3_000)).unwrap_or(0) - 1_500;
    let mut producer = Producer {
        world,
        who,
        rng,
        outbox,
        ledger: MemoryInbox::new(&world.store),
        stamps: HybridClock::new(Arc::new(JumpingClock::new(ahead)), DRIFT_MAX),
        last_stamp: None,
        keys,
        ids_made: 0,
        number,
    };
    for _ in 0..world.plan.transactions {
        let wait = producer.rng.millis(0..=2_000);
        tokio::time::sleep(wait).await;
        let events = producer.draw_events();
        producer.transact(&events).await;
    }
}

impl Producer<'_> {
    fn draw_events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let most = if self.rng.permille(150) { 12 } else { 3 };
        for _ in 0..self.rng.between(1..=most) {
            self.ids_made += 1;
            let id = event_id(self.number, self.ids_made);
            events.push(self.draw_event(id));
        }
        if let Some(id) = self.world.id_seen(&mut self.rng)
            && self.world.chaos.strikes(&mut self.rng, Fault::SameIdTwice)
        {
            events.push(self.draw_event(id));
        }
        events
    }

    fn draw_event(&mut self, id: EventId) -> Event {
        let rng = &mut self.rng;
        let mut event = Event::new("order.placed", payload_of(id)).id(id);
        event.delay = rng.permille(200).then(|| rng.millis(0..=10_000));
        let own_attempts = rng.permille(200).then(|| rng.between_u32(1..=6));
        event.max_attempts = own_attempts.filter(|_| !self.world.plan.kills);
        if rng.permille(200) {
            event.priority = rng.pick(&[0, 50, 200]).unwrap_or(100);
        }
        let stamp = self.stamp();
        self.draw_key(event).header("stamp", stamp.to_string())
    }

    /// By lanes most events have a key, and those cannot be delayed.
    fn draw_key(&mut self, mut event: Event) -> Event {
        if let Some(lanes) = self.world.plan.lanes
            && !self.keys.permille(lanes.unkeyed_permille)
        {
            event.delay = None;
            event.key = Some(format!("key-{}", self.keys.between_u32(1..=lanes.keys)));
        }
        event
    }

    /// A stamp above everything this producer has seen.
    fn stamp(&mut self) -> Hlc {
        let mut seen = self.last_stamp;
        if self.rng.permille(300)
            && let Some(remote) = self.world.latest_stamp()
            && self.stamps.merge(remote).is_ok()
        {
            seen = seen.max(Some(remote));
        }
        let stamp = self.stamps.now();
        if seen >= Some(stamp) {
            self.world.broken("stamps", format!("{}: {stamp} is not above {seen:?}", self.who));
        }
        self.last_stamp = Some(stamp);
        self.world.stamped(stamp);
        stamp
    }

    /// Writes until it knows what became of it: a lost answer to the commit means doing it all again.
    async fn transact(&mut self, events: &[Event]) {
        loop {
            let mut tx = self.world.store.begin();
            let mut written = Written::default();
            let ids = events.iter().filter_map(|event| event.id).collect();
            if self.write(&mut tx, events, &mut written).await.is_err() {
                // Two transactions waited for each other.
                tx.rollback();
                return self.record(Happened::RolledBack { ids });
            }
            if self.world.chaos.strikes(&mut self.rng, Fault::HeldOpen) {
                let wait = self.rng.millis(10..=8_000);
                tokio::time::sleep(wait).await;
            }
            if self.world.chaos.strikes(&mut self.rng, Fault::Rollback) {
                tx.rollback();
                return self.record(Happened::RolledBack { ids });
            }
            let lost = self.world.chaos.strikes(&mut self.rng, Fault::CommitAnswerLost);
            if lost && self.rng.permille(500) {
                tx.rollback();
                self.record(Happened::RolledBack { ids });
                continue;
            }
            self.outbox.commit(tx);
            let Written { fresh, duplicates, staged } = written;
            self.record(Happened::Committed { fresh: fresh.clone(), duplicates });
            if self.world.plan.lanes.is_some() {
                self.record_entered(&fresh, &staged);
            }
            if !lost {
                return;
            }
        }
    }

    /// The events and, in the same transaction, the ledger rows that are the truth about what committed.
    async fn write(&mut self, tx: &mut MemoryTx, events: &[Event], written: &mut Written) -> Result<()> {
        for event in events {
            let staging = self.outbox.stage_all(tx, vec![event.clone()]);
            let staged = if self.world.chaos.draws(&mut self.rng, Fault::DroppedStage) {
                let Some(staged) = staging.now_or_never() else {
                    // It waited for another transaction and was dropped: nothing of it may be there.
                    self.world.chaos.strike(Fault::DroppedStage);
                    continue;
                };
                staged?
            } else {
                staging.await?
            };
            for staged in staged {
                let event_id = staged.event_id();
                match staged {
                    Staged::Fresh(id) => {
                        written.fresh.push(id);
                        written.staged.push(self.world.chaos.history().len());
                    }
                    Staged::Duplicate(id) => written.duplicates.push(id),
                }
                self.world.saw_id(event_id);
                let request = AcceptRequest::new(LEDGER, event_id);
                let _ = self.ledger.accept(tx, request).await?;
            }
            tokio::task::yield_now().await;
            if self.world.plan.lanes.is_some() && self.world.chaos.strikes(&mut self.keys, Fault::HeldOpen) {
                let wait = self.keys.millis(1..=500);
                tokio::time::sleep(wait).await;
            }
        }
        Ok(())
    }

    /// Where the entries of a transaction stand that has just committed.
    fn record_entered(&self, fresh: &[EventId], staged: &[usize]) {
        let transaction = self.world.chaos.history().len();
        // The last row of an id: an earlier one may have been delivered, or be on its way.
        let rows: BTreeMap<EventId, Entry> =
            self.world.store.entries().into_iter().map(|entry| (entry.event_id, entry)).collect();
        for (id, staged) in fresh.iter().zip(staged) {
            let Some(entry) = rows.get(id) else { continue };
            self.record(Happened::Entered {
                seq: entry.seq,
                id: *id,
                key: entry.key.clone(),
                lane: lane_of(entry.key.as_deref(), *id),
                staged: *staged,
                transaction,
                max_attempts: entry.max_attempts.unwrap_or(self.world.plan.options.max_attempts),
                due_micros: entry.due_at.map(pillarbox_core::Timestamp::as_micros),
            });
        }
    }

    fn record(&self, what: Happened) {
        self.world.chaos.record(&self.who, what);
    }
}
