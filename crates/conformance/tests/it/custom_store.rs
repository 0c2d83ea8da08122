//! A store that a user wrote, with types of its own: it counts what goes through it. The suite does not care.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pillarbox_conformance::{MemoryHarness, StoreHarness, Tamper};
use pillarbox_core::port::shared::Verb;
use pillarbox_core::port::{
    AcceptRequest, Accepted, Admin, AuditFilter, Changed, Claim, ClaimRequest, CountByRequest, CountGroup,
    ExtendRequest, Extended, Filter, Inbox, InventoryRequest, InventoryRow, LaneBacklog, Migrated,
    PauseChange, PauseRequest, PurgeRequest, Purged, ReapRequest, Reaped, Recent, RecentRequest, RouteCounts,
    Schema, SchemaState, SelectionRequest, SettleRequest, Settled, Stage, Store, Story, Waits, WaitsRequest,
};
use pillarbox_core::{AuditRecord, Entry, Event, EventId, Result, RouteName, Staged, Timestamp};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, MemoryTx};

pillarbox_conformance::store_conformance!(CountingHarness);

/// A transaction of the user's own making.
struct CountingTx(MemoryTx);

struct CountingOutbox(MemoryOutbox);

struct CountingInbox(MemoryInbox);

/// Counts calls and passes them on.
struct CountingStore {
    inner: Arc<MemoryStore>,
    calls: AtomicU64,
}

impl CountingStore {
    fn inner(&self) -> &MemoryStore {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

#[async_trait]
impl Stage<CountingTx> for CountingOutbox {
    async fn stage_all(&self, tx: &mut CountingTx, events: Vec<Event>) -> Result<Vec<Staged>> {
        self.0.stage_all(&mut tx.0, events).await
    }
}

#[async_trait]
impl Inbox<CountingTx> for CountingInbox {
    async fn accept(&self, tx: &mut CountingTx, request: AcceptRequest) -> Result<Accepted> {
        self.0.accept(&mut tx.0, request).await
    }
}

#[async_trait]
impl Store for CountingStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.inner().claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.inner().extend(request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        self.inner().settle(request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.inner().reap(request).await
    }
}

#[async_trait]
impl Admin for CountingStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        self.inner().counts(now).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        self.inner().list(filter).await
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        self.inner().count_by(request).await
    }

    async fn recent(&self, request: RecentRequest) -> Result<Recent> {
        self.inner().recent(request).await
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.inner().waits(request).await
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.inner().lanes_of(route).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        self.inner().inventory(request).await
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        self.inner().show(id).await
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        self.inner().trail(filter).await
    }

    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        self.inner().change(request, verb).await
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        self.inner().set_pause(request).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        self.inner().purge(request).await
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        self.inner().purge_inbox(request).await
    }
}

#[async_trait]
impl Schema for CountingStore {
    async fn inspect(&self) -> Result<SchemaState> {
        self.inner().inspect().await
    }

    async fn migrate(&self) -> Result<Migrated> {
        self.inner().migrate().await
    }

    async fn plan(&self) -> Result<String> {
        self.inner().plan().await
    }
}

/// Harms the store through the harness of what it wraps.
struct CountingHarness {
    memory: MemoryHarness,
    store: Arc<CountingStore>,
}

#[async_trait]
impl StoreHarness for CountingHarness {
    type Tx = CountingTx;
    type Outbox = CountingOutbox;
    type Inbox = CountingInbox;
    type Store = CountingStore;

    const NAME: &'static str = "a user's store";

    async fn start() -> Self {
        let memory = MemoryHarness::start().await;
        let store = CountingStore { inner: memory.store(), calls: AtomicU64::new(0) };
        Self { memory, store: Arc::new(store) }
    }

    fn store(&self) -> Arc<CountingStore> {
        Arc::clone(&self.store)
    }

    fn outbox(&self, route: &str) -> CountingOutbox {
        CountingOutbox(self.memory.outbox(route))
    }

    fn inbox(&self) -> CountingInbox {
        CountingInbox(self.memory.inbox())
    }

    async fn now(&self) -> Timestamp {
        self.memory.now().await
    }

    async fn begin(&self) -> CountingTx {
        CountingTx(self.memory.begin().await)
    }

    async fn commit(&self, tx: CountingTx) {
        self.memory.commit(tx.0).await;
    }

    async fn rollback(&self, tx: CountingTx) {
        self.memory.rollback(tx.0).await;
    }

    async fn savepoint(&self, tx: &mut CountingTx) {
        self.memory.savepoint(&mut tx.0).await;
    }

    async fn rollback_to_savepoint(&self, tx: &mut CountingTx) {
        self.memory.rollback_to_savepoint(&mut tx.0).await;
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        self.memory.tamper(tamper).await
    }
}
