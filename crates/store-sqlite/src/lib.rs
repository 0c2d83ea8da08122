//! Pillarbox on SQLite: an outbox inside your own database file, and nothing else to install.
//!
//! - [`Outbox`] stages events inside the application's own transaction, of `sqlx` or of any other
//!   [supported driver](Transaction).
//! - [`SqliteStore`] is the store that relays and operators use. It implements the ports
//!   [`Store`](pillarbox_core::port::Store), [`Lanes`](pillarbox_core::port::Lanes),
//!   [`Admin`](pillarbox_core::port::Admin), [`Schema`](pillarbox_core::port::Schema) and
//!   [`Presence`](pillarbox_core::port::Presence).
//! - [`Sagas`] settles the steps of sagas. [`SqliteStore::sagas`] creates it.
//! - [`Inbox`] applies each event once on the receiving side.
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
//! An application in any other language stages with one plain `INSERT` in its own transaction. The payload
//! may be text or a blob:
//!
//! ```sql
//! insert into pillarbox_outbox (route, type, payload) values ('orders', 'order.placed', '{"id": 1}');
//! ```
//!
//! The file is in write-ahead mode, and SQLite allows one writer at a time. All writers of one store wait in
//! one queue, also the application's [transactions](SqliteStore::begin). A writer waits for another process
//! at most for the [busy timeout](Options::busy_timeout). Several processes may share a file on a local disk,
//! but not on a network share.
//!
//! A commit of the application is on disk when it returns. Claims and settles do not wait for the disk,
//! because a lost one only causes a redelivery. Deaths and the changes of operators do wait for it.
//!
//! Needs SQLite 3.38 or later in every program that opens the file. This crate includes its own SQLite.
// Shows beside each item which feature has it, on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod bind;
mod call;
mod change;
mod claim;
mod commit;
mod connect;
mod doctor;
mod driver;
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
mod recent;
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
pub use driver::Transaction;
pub use inbox::Inbox;
pub use options::Options;
pub use outbox::Outbox;
pub use saga::Sagas;
pub use sql::statements;
pub use statement::{Param, Statement};
pub use store::SqliteStore;
pub use transaction::Begin;
