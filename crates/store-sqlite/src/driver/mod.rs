//! The drivers whose transactions an outbox and an inbox can use, one file each. A file runs statements and says what
//! the driver's errors mean; everything else is the same for all of them.

mod sqlx;

use pillarbox_host::transactions;

use crate::statement::Value;

transactions! {
    /// | driver | feature | transaction |
    /// |---|---|---|
    /// | sqlx 0.9 | none | `sqlx::Transaction<'_, Sqlite>` |
    ///
    #[doc = include_str!("sqlx.md")]
    Value
}
