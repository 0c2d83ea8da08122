//! Pillarbox on MariaDB and MySQL: an outbox inside your own database.
//!
//! - [`Outbox`] stages events inside the application's own [`Transaction`].
//! - [`MySqlStore`] is the store that relays and operators use. It implements the ports
//!   [`Store`](pillarbox_core::port::Store), [`Lanes`](pillarbox_core::port::Lanes),
//!   [`Admin`](pillarbox_core::port::Admin), [`Schema`](pillarbox_core::port::Schema) and
//!   [`Presence`](pillarbox_core::port::Presence).
//! - [`Sagas`] settles the steps of sagas. [`MySqlStore::sagas`] creates it.
//! - [`Inbox`] applies each event once on the receiving side.
//!
//! ```
//! # use pillarbox_core::{Event, Result};
//! # use pillarbox_store_mysql::Outbox;
//! # async fn example(pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::new("orders");
//!
//! let mut tx = pool.begin().await?;
//! sqlx::query("insert into orders (id) values (7)").execute(&mut *tx).await?;
//! outbox.stage(&mut tx, Event::json("order.placed", &7)?.key("o-7")).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Staging needs a transaction. A pool or a connection outside of one does not compile:
//!
//! ```compile_fail,E0277
//! # async fn example(pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
//! let mut connection = pool.acquire().await?;
//! pillarbox_store_mysql::Outbox::new("orders")
//!     .stage(&mut connection, pillarbox_core::Event::json("order.placed", &7)?)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! An application in any other language stages with one plain `INSERT` in its own transaction:
//!
//! ```sql
//! insert into pillarbox_outbox (route, type, payload) values ('orders', 'order.placed', '{"id": 1}');
//! ```
//!
//! Needs MariaDB 10.6 or MySQL 8.4, or later, with InnoDB. The nodes of a Galera cluster share the work.
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
mod front;
mod inbox;
mod lanes;
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
pub use options::Options;
pub use outbox::Outbox;
pub use saga::Sagas;
pub use sql::statements;
pub use statement::{Param, Statement};
pub use store::MySqlStore;
pub use transaction::Begin;
