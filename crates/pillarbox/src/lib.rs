//! Transactional messaging for services: *what your transaction commits is delivered, what it rolls back never
//! happened.*
//!
//! - An **outbox** stages an event in the transaction that the application already has.
//! - A [`Relay`] delivers committed events to a [`Sink`]: a file, a broker, or [`Handlers`](sink::Handlers) in the
//!   same process. It delivers at least once, with leases and retries. An event that cannot be delivered ends
//!   visibly.
//! - An **inbox** marks an event as seen in the transaction of the handler's own write, so that the event takes
//!   effect once.
//! - A [`Saga`] is a group of deliveries with one audited outcome. Its steps run in any order, or in one order with
//!   compensation. [`Relay::sagas`] runs them.
//!
//! This crate has no logic of its own. It re-exports the parts that applications use. Authors of a store or a sink
//! implement the traits of [`port`].
//!
//! # Features
//!
//! - `sqlite` (default): `pillarbox::sqlite`, an outbox in a file, with nothing to install.
//! - `postgres`: `pillarbox::postgres`, an outbox in a PostgreSQL database.
//! - `mongodb`: `pillarbox::mongodb`, an outbox in a MongoDB database.
//! - `mysql`: `pillarbox::mysql`, an outbox in a MySQL or MariaDB database.
//! - `amqp`, `kafka`, `mqtt`, `nats`, `redis`, `sqs`: delivery to, and consumption from, RabbitMQ, Kafka, MQTT 5, NATS
//!   JetStream, Redis Streams and Amazon SQS. `kafka` needs Rust 1.95.
//! - `metrics`: `pillarbox::metrics`, OpenMetrics of relays, consumers and the store.
//! - `dashboard`: `pillarbox::dashboard`, health, an API and a live page as a router for axum 0.8.
//! - `otel`: `pillarbox::otel`, traces with OpenTelemetry.
//! - `http`: signed webhooks. `axum`: the same, with an extractor for axum 0.8 to receive them.
//!
//! All databases stage and accept in transactions of `sqlx` 0.9. Other drivers have a feature each, which adds to
//! the features of the databases:
//!
//! - `diesel` (2.3) and `sea-orm` (2): on PostgreSQL, MariaDB, MySQL and SQLite. diesel reaches a server through its
//!   client library (libpq, libmariadb), which must be installed.
//! - `diesel-async` (0.9): on PostgreSQL, MariaDB and MySQL.
//! - `tokio-postgres` (0.7): on PostgreSQL.
//! - `rusqlite` (0.39): on SQLite.
// Shows beside each item which feature has it, on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(feature = "sqlite", doc = include_str!("../quick_start.md"))]

// By hand: what an application names. Everything else of the parts stays in their crates.
pub use pillarbox_core::port::{
    AcceptRequest, Accepted, Admin, SagaAdmin, Sagas, Sink, Source, Store, Transactions,
};
pub use pillarbox_core::{
    Backoff, Entry, Error, ErrorKind, Event, EventId, Failure, FailureKind, Headers, HybridClock, Ident,
    Jitter, OnDead, Outcome, PayloadError, Received, Reference, Result, RouteName, Saga, SagaId, SagaStatus,
    Staged, Status, Step, Timestamp, TypedEvent,
};
pub use pillarbox_engine::{
    Consumer, ConsumerOptions, ConsumerTally, Handle, Relay, RelayOptions, Retention, RetentionOptions,
    Tally, sink,
};
pub use pillarbox_host::process_clock;

/// For programs that watch and operate an outbox: what [`Admin`] and [`SagaAdmin`] return about sagas and the audit
/// trail, the state of relays, and the observer of deliveries. The requests and the other answers are in [`port`].
pub mod operate {
    pub use pillarbox_core::port::{Presence, RelaySeen, SagaFilter};
    pub use pillarbox_core::{AuditKind, AuditRecord, CircuitState, SagaRecord, StepState};
    pub use pillarbox_engine::{Observe, RelayState};
}

/// For authors of a store, a destination or a source: the traits to implement, with their requests and answers. The
/// suites of the crate `pillarbox-conformance` test an implementation. Applications need nothing from here by name,
/// unless they audit sagas in a way of their own.
pub mod port {
    pub use pillarbox_core::NewAudit;
    pub use pillarbox_core::port::*;
    pub use pillarbox_host::{Creation, TraceContext, Tracer};
}

/// An outbox and inbox in a MongoDB database.
#[cfg(feature = "mongodb")]
pub mod mongodb {
    pub use pillarbox_store_mongodb::*;
}

/// An outbox and inbox in a MySQL or MariaDB database.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use pillarbox_store_mysql::*;
}

/// An outbox and inbox in a PostgreSQL database.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use pillarbox_store_postgres::*;
}

/// An outbox and inbox in a SQLite file.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use pillarbox_store_sqlite::*;
}

/// Metrics as OpenMetrics text.
#[cfg(feature = "metrics")]
pub mod metrics {
    pub use pillarbox_metrics::*;
}

/// RabbitMQ, over AMQP 0-9-1.
#[cfg(feature = "amqp")]
pub mod amqp {
    pub use pillarbox_transport_amqp::*;
}

/// Health, an API and a live page, as a router for axum 0.8.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn serve() -> pillarbox::Result<()> {
/// use pillarbox::dashboard::{Dashboard, DashboardOptions, Ports};
///
/// let store = pillarbox::sqlite::SqliteStore::connect("sqlite://shop.db", Default::default()).await?;
/// let dashboard = Dashboard::new(Ports::of(&store), DashboardOptions::default())?;
/// // Nest it in the router of a service, and run the sampler beside the service.
/// let router = dashboard.router();
/// # let _ = router;
/// dashboard.run(std::future::pending()).await;
/// # Ok(()) }
/// ```
#[cfg(feature = "dashboard")]
pub mod dashboard {
    pub use pillarbox_dashboard::*;
}

/// Webhooks.
#[cfg(feature = "http")]
pub mod http {
    pub use pillarbox_transport_http::*;
}

/// Kafka.
#[cfg(feature = "kafka")]
pub mod kafka {
    pub use pillarbox_transport_kafka::*;
}

/// MQTT 5.
#[cfg(feature = "mqtt")]
pub mod mqtt {
    pub use pillarbox_transport_mqtt::*;
}

/// NATS JetStream.
#[cfg(feature = "nats")]
pub mod nats {
    pub use pillarbox_transport_nats::*;
}

/// Traces with OpenTelemetry.
#[cfg(feature = "otel")]
pub mod otel {
    pub use pillarbox_otel::*;
}

/// Redis Streams, and Valkey.
#[cfg(feature = "redis")]
pub mod redis {
    pub use pillarbox_transport_redis::*;
}

/// Amazon SQS.
#[cfg(feature = "sqs")]
pub mod sqs {
    pub use pillarbox_transport_sqs::*;
}
