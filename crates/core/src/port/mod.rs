//! The ports: what the engine needs of a database, a destination and a clock. Adapters implement these traits and
//! prove it with the suites of `pillarbox-conformance`.
//!
//! Each operation takes one request and returns one outcome. Every request of a store takes an optional pinned
//! `now`. Tests use it to control time. Production leaves it out, and the database's clock decides.

mod accept_batch;
mod admin;
mod backlog;
mod clock;
mod doctor;
mod filter;
mod inbox;
mod lanes;
mod operating;
mod presence;
mod recent;
mod saga;
mod saga_cursor;
mod saga_hooks;
mod schema;
pub mod shared;
mod sink;
mod source;
mod stage;
mod store;
mod trail;
mod transcript;
mod waits;

pub use accept_batch::AcceptBatch;
pub use admin::{
    Admin, Changed, Effect, InventoryRequest, InventoryRow, Pool, PurgeRequest, Purged, Purging, RouteCounts,
    Selection, SelectionRequest, Story,
};
pub use backlog::LaneBacklog;
pub use clock::{Clock, Entropy, Wake};
pub use doctor::{Connections, Depth, Doctor, Finding, OpenTransaction, Severity};
pub use filter::Filter;
pub use inbox::{AcceptRequest, Accepted, Inbox, Origin, Transactions};
pub use lanes::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadKind, HeadsRequest,
    IsolateRequest, LANES, LaneCursor, LaneHeld, LaneRead, LaneRow, LaneSeen, LaneSettleRequest,
    LaneSettlement, LaneWish, Lanes, Passed, PassedRequest, ReadRequest, SessionId,
};
pub use operating::{
    BlockingHead, CountBy, CountByRequest, CountGroup, Pause, PauseChange, PauseRequest, PauseTo, Skip,
    Skipped,
};
pub use presence::{AnnounceRequest, Outage, Presence, RelaySeen, RunId};
pub use recent::{Recent, RecentRequest};
pub use saga::{
    Intervened, Intervention, InterventionRequest, SagaAdmin, SagaCounts, SagaFilter, SagaStory, Sagas,
    StageSaga, StagedSaga, StepOutcome, StepSettleRequest, StepSettlement, StepsSettled, SweepRequest, Swept,
};
pub use saga_cursor::SagaCursor;
pub use saga_hooks::{AuditSink, SagaEnd, SagaEnding, SagaHooks};
pub use schema::{Migrated, Schema, SchemaState};
pub use sink::{Report, Sink, SinkCapabilities};
pub use source::{Message, Position, Receipt, Source, SourceCapabilities, Subscription};
pub use stage::{Buffer, Stage};
pub use store::{
    Claim, ClaimOrder, ClaimRequest, Company, Death, ExtendRequest, Extended, Keep, Leases, ReapRequest,
    Reaped, SettleRequest, Settled, Settlement, Steps, Store, Undecodable, Verdict,
};
pub use trail::AuditFilter;
pub use transcript::{Pages, Transcript};
pub use waits::{WAIT_BOUNDS, Waits, WaitsRequest};
