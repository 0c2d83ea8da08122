//! What `pillarbox bench` and the measurements of `crates/bench` share.

mod confirm;
#[cfg(feature = "mongodb")]
mod documents;
mod ground;
mod raw;
mod stats;

pub use confirm::{Committed, Milliseconds, Stamping, beside};
#[cfg(feature = "mongodb")]
pub use documents::empty_outbox;
pub use ground::{Ground, ROUTE, load, migrated};
pub use raw::{Design, Raw};
pub use stats::{median, percentile, rate, ratio};
