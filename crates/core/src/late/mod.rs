//! What became visible late, for stores in which a transaction draws the seq of a row before it commits: a lower seq may
//! come after a higher one was read.
//!
//! Such a store keeps a [`LateCursor`] in its [`LaneCursor`](crate::port::LaneCursor) and answers three questions: what is
//! above a seq, what is there between two, and which transactions may be writing. [`Reading`] says what to ask, and
//! what follows from it.

mod horizon;
mod reading;

pub use reading::{Ask, LateCursor, Position, Reading, Told};

/// Numbers of writers from here on are of transactions that had another one while they wrote: prepared ones.
pub const RENAMED: u64 = 1 << 63;
