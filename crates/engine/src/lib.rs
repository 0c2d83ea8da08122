//! The async shell of Pillarbox. It has the relay, which claims, delivers and settles, and the consumer,
//! which applies each event once. It also has retention, and the sinks that need no broker.
//!
//! Nothing here spawns a task: `run(shutdown)` is one future, and the task that awaits it does all of the
//! work. The engine knows neither databases nor brokers, only the ports of [`pillarbox_core::port`].

mod circuit;
mod consumer;
mod feed;
mod handle;
mod observe;
mod options;
mod poll;
mod random;
mod relay;
mod retention;
mod seqs;
pub mod sink;
mod tally;
mod trace;
mod verdict;

pub use consumer::{Consumer, ConsumerBuilder, ConsumerOptions, ConsumerTally};
pub use handle::{Handle, RelayState};
pub use observe::{Consumed, Observe, StoreCall};
pub use options::RelayOptions;
pub use pillarbox_core::CircuitState;
pub use pillarbox_core::OnDead;
pub use relay::{Relay, RelayBuilder};
pub use retention::{Retention, RetentionOptions};
pub use tally::Tally;
