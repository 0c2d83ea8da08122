//! Pillarbox on MongoDB: an outbox inside your own database.
//!
//! - [`Outbox`] stages events inside the application's own transaction of the `mongodb` driver.
//! - [`MongoStore`] is the store that relays and operators use. It implements the ports
//!   [`Store`](pillarbox_core::port::Store), [`Lanes`](pillarbox_core::port::Lanes),
//!   [`Admin`](pillarbox_core::port::Admin), [`Schema`](pillarbox_core::port::Schema) and
//!   [`Presence`](pillarbox_core::port::Presence).
//! - [`Sagas`] settles the steps of sagas. [`MongoStore::sagas`] creates it.
//! - [`Inbox`] applies each event once on the receiving side.
//!
//! ```
//! # use mongodb::bson::doc;
//! # use pillarbox_core::{Event, Result};
//! # use pillarbox_store_mongodb::Outbox;
//! # async fn example(client: mongodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::new("orders");
//! let orders = client.database("shop").collection("orders");
//!
//! let mut session = client.start_session().await?;
//! session.start_transaction().await?;
//! orders.insert_one(doc! { "_id": 7 }).session(&mut session).await?;
//! outbox.stage(&mut session, Event::json("order.placed", &7)?.key("o-7")).await?;
//! session.commit_transaction().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Staging needs a session with a transaction. A session without one compiles, and is refused at run time with the kind
//! [`Invalid`](pillarbox_core::ErrorKind::Invalid), before anything is written. A client, which is a pool of connections,
//! or a collection does not compile:
//!
//! ```compile_fail,E0308
//! # async fn example(client: mongodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! pillarbox_store_mongodb::Outbox::new("orders")
//!     .stage(&mut client.clone(), pillarbox_core::Event::json("order.placed", &7)?)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail,E0308
//! # use mongodb::bson::Document;
//! # async fn example(mut orders: mongodb::Collection<Document>) -> Result<(), Box<dyn std::error::Error>> {
//! pillarbox_store_mongodb::Outbox::new("orders")
//!     .stage(&mut orders, pillarbox_core::Event::json("order.placed", &7)?)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! An application in any other language stages with one plain insert in its own transaction:
//!
//! ```javascript
//! db.pillarbox_outbox.insertOne(
//!     {seq: Timestamp(0, 0), route: "orders", type: "order.placed", payload: '{"id": 1}'}, {session})
//! ```
//!
//! Needs MongoDB 7.0 or later as a replica set. A set of one node is enough.

mod abandoned;
mod admin;
mod adopt;
mod batch;
mod call;
mod change;
mod claim;
mod command;
mod commit;
mod connect;
mod doctor;
mod error;
mod front;
mod inbox;
mod lanes;
mod layout;
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
mod store;
mod tables;
mod transaction;

pub use inbox::Inbox;
pub use options::Options;
pub use outbox::Outbox;
pub use saga::Sagas;
pub use store::MongoStore;
pub use transaction::Begin;
