//! Finding entries that become visible late, for stores in which a transaction takes a row's sequence number before
//! it commits. In such a store a lower sequence number may become visible after a higher one was read.
//!
//! Such a store keeps a [`LateCursor`] in its [`LaneCursor`](crate::port::LaneCursor). It answers three questions:
//! which entries are above a sequence number, which are between two, and which transactions may be writing.
//! [`Reading`] says what to ask and evaluates the answers.
//!
//! A store that cannot tell which transactions may be writing keeps an [`OpenCursor`]. It looks at all open entries of
//! a lane with every read.

mod horizon;
mod open;
mod reading;

pub use open::{OpenAsk, OpenCursor, Shown};
pub use reading::{Ask, LateCursor, Position, Reading, Told};

/// Writer numbers from here on belong to prepared transactions, which had another number while they wrote.
pub const RENAMED: u64 = 1 << 63;
