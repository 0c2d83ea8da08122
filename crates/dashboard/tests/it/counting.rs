//! A store that counts how often it is asked, and can refuse to answer one question.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::shared::Verb;
use pillarbox_core::port::{
    Admin, AnnounceRequest, AuditFilter, Changed, Connections, CountByRequest, CountGroup, Depth, Doctor,
    Filter, Finding, Intervened, InterventionRequest, InventoryRequest, InventoryRow, LaneBacklog, Migrated,
    OpenTransaction, PauseChange, PauseRequest, Presence, PurgeRequest, Purged, Recent, RecentRequest,
    RelaySeen, RouteCounts, RunId, SagaAdmin, SagaCounts, SagaFilter, SagaStory, Schema, SchemaState,
    SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{
    AuditRecord, Entry, Error, ErrorKind, EventId, Reference, Result, RouteName, SagaId, SagaRecord,
    Timestamp,
};
use pillarbox_host::SystemClock;
use pillarbox_testkit::MemoryStore;

/// A store in memory, and how many calls it has answered.
#[derive(Clone, Default)]
pub(crate) struct Counting {
    pub(crate) store: MemoryStore,
    calls: Arc<AtomicUsize>,
    /// The name of the question that it does not answer.
    refused: &'static str,
}

impl Counting {
    pub(crate) fn refusing(question: &'static str) -> Self {
        Self { refused: question, ..Self::default() }
    }

    /// A store whose clock is that of the page.
    pub(crate) fn in_real_time() -> Self {
        Self { store: MemoryStore::with_clock(Arc::new(SystemClock)), ..Self::default() }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Counts each of these calls and passes it on.
macro_rules! counted {
    ($port:ident { $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        #[async_trait]
        impl $port for Counting {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer> {
                self.calls.fetch_add(1, Ordering::SeqCst);
                if stringify!($name) == self.refused {
                    return Err(Error::new(ErrorKind::Unavailable, "the store does not answer"));
                }
                $port::$name(&self.store, $($argument),*).await
            })*
        }
    };
}

counted!(Admin {
    counts(now: Option<Timestamp>) -> Vec<RouteCounts>;
    list(filter: Filter) -> Vec<Entry>;
    inventory(request: InventoryRequest) -> Vec<InventoryRow>;
    show(id: EventId) -> Vec<Story>;
    trail(filter: AuditFilter) -> Vec<AuditRecord>;
    count_by(request: CountByRequest) -> Vec<CountGroup>;
    recent(request: RecentRequest) -> Recent;
    waits(request: WaitsRequest) -> Waits;
    lanes_of(route: &RouteName) -> Vec<LaneBacklog>;
    change(request: SelectionRequest, verb: Verb) -> Changed;
    set_pause(request: PauseRequest) -> PauseChange;
    purge(request: PurgeRequest) -> Purged;
    purge_inbox(request: PurgeRequest) -> Purged;
});

counted!(SagaAdmin {
    list_sagas(filter: SagaFilter) -> Vec<SagaRecord>;
    show_saga(id: SagaId) -> Option<SagaStory>;
    intervene(request: InterventionRequest) -> Intervened;
    saga_counts(now: Option<Timestamp>) -> SagaCounts;
    audit_of(subject: &Reference) -> Vec<AuditRecord>;
    purge_sagas(request: PurgeRequest) -> Purged;
});

/// There is nothing to examine in memory, and everybody may change it.
#[async_trait]
impl Doctor for Counting {
    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::MIN)
    }

    async fn connections(&self) -> Result<Option<Connections>> {
        Ok(None)
    }

    async fn transactions(&self, _older_than: Duration) -> Result<Vec<OpenTransaction>> {
        Ok(vec![])
    }

    async fn examine(&self, _depth: Depth) -> Result<Vec<Finding>> {
        Ok(vec![])
    }
}

counted!(Presence {
    announce(request: AnnounceRequest) -> ();
    withdraw(run: RunId) -> ();
    relays(now: Option<Timestamp>) -> Vec<RelaySeen>;
});

counted!(Schema {
    inspect() -> SchemaState;
    migrate() -> Migrated;
    plan() -> String;
});
