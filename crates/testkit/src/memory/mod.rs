//! An outbox in memory that behaves as the databases do: transactions, out-of-order commits, leases, fences,
//! an audit trail. It is deterministic, and simple enough to be the model that other stores are compared with.

mod admin;
mod broker;
mod change;
mod claim;
mod clock;
mod harness;
mod inbox;
mod lanes;
mod mutant;
mod outbox;
mod presence;
mod reap;
mod saga;
mod schema;
mod settle;
mod sink;
mod state;
mod store;
mod tx;

pub use broker::{MemoryBroker, MemoryBrokerHarness, MemoryInboxHarness, MemorySource, Published};
pub use clock::{ManualClock, TokioClock};
pub use harness::MemoryHarness;
pub use inbox::MemoryInbox;
#[doc(hidden)]
pub use mutant::Mutant;
pub use outbox::{MemoryOutbox, sample_entry};
pub use saga::MemorySagas;
pub use sink::{Attempt, MemorySink, Reply, Which};
pub use store::MemoryStore;
pub use tx::MemoryTx;
