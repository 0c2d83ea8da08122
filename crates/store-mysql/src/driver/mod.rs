//! The drivers whose transactions an outbox and an inbox can use, one file each. A file runs statements and says what
//! the driver's errors mean; everything else is the same for all of them.
//!
//! The statements return bytes in every column, which no character set of a connection changes.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(any(feature = "diesel", feature = "diesel-async"))]
mod diesel_query;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::transactions;

use crate::statement::Value;

transactions! {
    /// | driver | feature | transaction |
    /// |---|---|---|
    /// | sqlx 0.9 | none | `sqlx::Transaction<'_, MySql>` |
    /// | diesel 2.3 | `diesel` | `diesel::MysqlConnection` inside of a transaction |
    /// | diesel-async 0.9 | `diesel-async` | `diesel_async::AsyncMysqlConnection` inside of a transaction |
    /// | SeaORM 2 | `sea-orm` | `sea_orm::DatabaseTransaction` |
    ///
    #[doc = include_str!("sqlx.md")]
    #[cfg_attr(feature = "diesel", doc = include_str!("diesel.md"))]
    #[cfg_attr(feature = "diesel-async", doc = include_str!("diesel_async.md"))]
    #[cfg_attr(feature = "sea-orm", doc = include_str!("sea_orm.md"))]
    Value
}

/// A cell of an answer.
fn cell(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::Corrupt, "the answer of the database cannot be read"))
}
