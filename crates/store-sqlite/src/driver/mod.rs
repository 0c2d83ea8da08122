//! The drivers whose transactions an outbox and an inbox can use, one file each. A file runs statements and says what
//! the driver's errors mean; everything else is the same for all of them.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

use pillarbox_host::transactions;

use crate::statement::Value;

transactions! {
    /// | driver | feature | transaction |
    /// |---|---|---|
    /// | sqlx 0.9 | none | `sqlx::Transaction<'_, Sqlite>` |
    /// | diesel 2.3 | `diesel` | `diesel::SqliteConnection` inside of a transaction |
    /// | rusqlite 0.39 | `rusqlite` | `rusqlite::Transaction<'_>`, `rusqlite::Savepoint<'_>` |
    /// | SeaORM 2 | `sea-orm` | `sea_orm::DatabaseTransaction` |
    ///
    #[doc = include_str!("sqlx.md")]
    #[cfg_attr(feature = "diesel", doc = include_str!("diesel.md"))]
    #[cfg_attr(feature = "rusqlite", doc = include_str!("rusqlite.md"))]
    #[cfg_attr(feature = "sea-orm", doc = include_str!("sea_orm.md"))]
    Value
}
