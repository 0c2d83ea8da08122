//! Pillarbox on SQLite: an outbox inside your own database file, and nothing else to install.

mod admin;
mod batch;
mod change;
mod claim;
mod connect;
mod error;
mod inbox;
mod options;
mod outbox;
#[cfg(test)]
mod plans;
mod purge;
mod reap;
mod row;
mod schema;
mod settle;
mod sql;
mod statement;
mod store;
mod tables;

pub use connect::app_pool;
pub use inbox::Inbox;
pub use options::{BUSY_TIMEOUT_DEFAULT, Options};
pub use outbox::Outbox;
pub use statement::{Param, Statement};
pub use store::SqliteStore;
