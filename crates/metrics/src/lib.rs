//! Metrics of Pillarbox as OpenMetrics text.
//!
//! [`Metrics`] is one set of metrics for a process. A relay gets its part with `.observer(metrics.route(…))`, a consumer
//! with `.observer(metrics.consumer(…))`. Metrics of the store come from a [`StoreSample`], which the application
//! reads at an interval of its own: no scrape ever asks the database.
//!
//! Labels are bounded: a route or a consumer beyond [`NAMES_MAX`] is counted as `other`. No label has an id, a key, a
//! payload or an error text.
//!
//! ```
//! use pillarbox_engine::{Relay, sink::NullSink};
//! use pillarbox_metrics::Metrics;
//! use pillarbox_testkit::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> pillarbox_core::Result<()> {
//! let metrics = Metrics::new();
//! let relay = Relay::builder(MemoryStore::new(), NullSink)
//!     .route("orders")
//!     .observer(metrics.route("orders"))
//!     .build()?;
//! relay.drain().await?;
//! assert!(metrics.encode().contains("pillarbox_claimed_total{route=\"orders\"} 0"));
//! # Ok(())
//! # }
//! ```

mod consumer;
mod labels;
mod metrics;
mod plain;
mod route;
mod sample;
mod store;

pub use consumer::ConsumerMetrics;
pub use labels::{NAMES_MAX, OTHER};
pub use metrics::{CONTENT_TYPE, CONTENT_TYPE_PLAIN, Metrics};
pub use pillarbox_core::port::Pool;
pub use route::RouteMetrics;
pub use sample::StoreSample;
