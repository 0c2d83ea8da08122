//! The databases: tables of each test's own, and handlers that write beside their mark.

mod postgres;
mod sqlite;

pub(crate) use postgres::Postgres;
pub(crate) use sqlite::Sqlite;
