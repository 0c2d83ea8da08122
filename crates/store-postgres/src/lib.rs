//! Pillarbox on PostgreSQL: an outbox inside your own database.
//!
//! - [`Outbox`] stages events inside the application's own transaction, of `sqlx` or of any other
//!   [supported driver](Transaction).
//! - [`PostgresStore`] is the store that relays and operators use. It implements the ports
//!   [`Store`](pillarbox_core::port::Store), [`Admin`](pillarbox_core::port::Admin),
//!   [`Lanes`](pillarbox_core::port::Lanes), [`Schema`](pillarbox_core::port::Schema) and
//!   [`Presence`](pillarbox_core::port::Presence).
//! - [`Sagas`] settles the steps of sagas. [`PostgresStore::sagas`] creates it.
//! - [`Inbox`] applies each event once on the receiving side.
//!
//! ```no_run
//! use pillarbox_core::{Event, Result};
//! use pillarbox_store_postgres::{Options, PostgresStore};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresStore::connect("postgres://localhost/shop", Options::default()).await?;
//! let _ = store.migrate().await?;
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
//! An application in any other language stages with one plain `INSERT` of route, type and payload, or with
//! the function:
//!
//! ```sql
//! select pillarbox_stage('orders', 'order.placed', '{"id": 1}'::jsonb, key => 'o-1');
//! ```
//!
//! Needs PostgreSQL 14 or later. Works through PgBouncer in transaction mode: see [`Mode`].
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
mod floor;
mod inbox;
mod lanes;
mod lean;
mod meant;
mod options;
mod outbox;
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

pub use driver::Transaction;
pub use inbox::Inbox;
pub use options::{Mode, Options};
pub use outbox::Outbox;
pub use saga::Sagas;
pub use sql::statements;
pub use statement::{Param, Statement};
pub use store::PostgresStore;
pub use transaction::Begin;
