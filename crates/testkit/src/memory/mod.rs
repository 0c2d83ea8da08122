//! An outbox in memory that behaves as the databases do: transactions, out-of-order commits, leases, fences,
//! an audit trail. It is deterministic, and simple enough to be the model that other stores are compared with.

mod admin;
mod broker;
mod change;
mod claim;
mod clock;
mod inbox;
mod jumping;
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
mod tamper;
mod tx;

pub use broker::{MemoryBroker, MemorySource, Published};
pub use clock::{ManualClock, TokioClock};
pub use inbox::MemoryInbox;
pub use jumping::JumpingClock;
#[doc(hidden)]
pub use mutant::Mutant;
pub use outbox::{MemoryOutbox, sample_entry};
pub use saga::MemorySagas;
pub use sink::{Attempt, MemorySink, Reply, Which};
pub use store::MemoryStore;
pub use tx::MemoryTx;
