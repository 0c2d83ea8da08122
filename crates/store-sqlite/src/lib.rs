//! Pillarbox on SQLite: an outbox inside your own database file, and nothing else to install.
//!
//! - [`Outbox`] stages events inside the application's own `sqlx` transaction.
//! - [`SqliteStore`] is what relays and operators work on: the ports [`Store`](pillarbox_core::port::Store),
//!   [`Lanes`](pillarbox_core::port::Lanes), [`Admin`](pillarbox_core::port::Admin), [`Schema`](pillarbox_core::port::Schema) and
//!   [`Presence`](pillarbox_core::port::Presence).
//! - [`Sagas`] settle the steps of sagas; [`SqliteStore::sagas`] makes one.
//! - [`Inbox`] applies an event once on the other side.
//!
//! ```
//! use pillarbox_core::Event;
//! use pillarbox_store_sqlite::{Options, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}", directory.path().join("shop.db").display());
//! let store = SqliteStore::connect(&url, Options::default()).await?;
//! let _ = store.migrate().await?;
//! # sqlx::query("create table orders (id integer primary key)").execute(store.pool()).await?;
//!
//! let outbox = store.outbox("orders");
//! let mut tx = store.begin().await?;
//! sqlx::query("insert into orders (id) values (7)").execute(&mut *tx).await?;
//! let staged = outbox.stage(&mut tx, Event::json("order.placed", &7)?.key("o-7")).await?;
//! assert!(!staged.is_duplicate());
//! outbox.commit(tx).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Any other language stages with one plain `INSERT` in its own transaction; the payload may be text or a blob:
//!
//! ```sql
//! insert into pillarbox_outbox (route, type, payload) values ('orders', 'order.placed', '{"id": 1}');
//! ```
//!
//! The file is in write-ahead mode, and SQLite lets one writer in at a time. Whoever writes through one store,
//! [transactions](SqliteStore::begin) of the application included, waits in line; for another process it waits at most
//! for the [busy timeout](Options::busy_timeout). Several processes may share a file on a local disk, not on
//! a network share. What an application commits is on disk when its commit returns. Claims and settles do not wait for
//! the disk, because a lost one only means a redelivery; deaths and the changes of operators do.
//!
//! Needs SQLite 3.38 or later in every program that opens the file; this crate brings its own.

mod admin;
mod batch;
mod bind;
mod call;
mod change;
mod claim;
mod commit;
mod connect;
mod error;
mod file;
mod inbox;
mod lanes;
mod meant;
mod options;
mod outbox;
mod patience;
mod presence;
mod purge;
mod reap;
mod row;
mod saga;
mod schema;
mod settle;
mod sql;
mod statement;
mod store;
mod tables;
mod transaction;

pub use connect::app_pool;
pub use inbox::Inbox;
pub use options::Options;
pub use outbox::Outbox;
pub use saga::Sagas;
pub use sql::statements;
pub use statement::{Param, Statement};
pub use store::SqliteStore;
pub use transaction::Begin;
