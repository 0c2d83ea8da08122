//! The drivers whose transactions an outbox and an inbox can use, one file each. A file runs statements and says what
//! the driver's errors mean; everything else is the same for all of them.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(any(feature = "diesel", feature = "diesel-async"))]
mod diesel_query;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use pillarbox_host::transactions;

use crate::statement::Value;

transactions! {
    /// | driver | feature | transaction |
    /// |---|---|---|
    /// | sqlx 0.9 | none | `sqlx::Transaction<'_, Postgres>` |
    /// | diesel 2.3 | `diesel` | `diesel::PgConnection` inside of a transaction |
    /// | diesel-async 0.9 | `diesel-async` | `diesel_async::AsyncPgConnection` inside of a transaction |
    /// | SeaORM 2 | `sea-orm` | `sea_orm::DatabaseTransaction` |
    /// | tokio-postgres 0.7 | `tokio-postgres` | `tokio_postgres::Transaction<'_>` |
    ///
    #[doc = include_str!("sqlx.md")]
    #[cfg_attr(feature = "diesel", doc = include_str!("diesel.md"))]
    #[cfg_attr(feature = "diesel-async", doc = include_str!("diesel_async.md"))]
    #[cfg_attr(feature = "sea-orm", doc = include_str!("sea_orm.md"))]
    #[cfg_attr(feature = "tokio-postgres", doc = include_str!("tokio_postgres.md"))]
    Value
}
