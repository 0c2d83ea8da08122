//! The operator's side over HTTP: health, an API and a live page, as an axum router.
//!
//! [`Dashboard`] takes the operator's ports of a store. [`Dashboard::run`] is the sampler: one future that reads the
//! store about once a second and keeps fifteen minutes of history. Every page and every stream shows what it has read,
//! so ten open pages cost the database as much as one. [`Dashboard::router`] is the server side, to embed in a service;
//! [`Dashboard::serve`] serves it on a listener with limits on connections and time.
//!
//! ```no_run
//! use pillarbox_dashboard::{Dashboard, DashboardOptions, Ports};
//! # use pillarbox_core::port::{Admin, Doctor, Presence, SagaAdmin, Schema};
//!
//! # async fn serve<S>(store: S, shutdown: impl Future<Output = ()>) -> pillarbox_core::Result<()>
//! # where S: Admin + SagaAdmin + Presence + Schema + Doctor + Clone + 'static {
//! let dashboard = Dashboard::new(Ports::of(&store), DashboardOptions::default().prefix("/ops/outbox"))?;
//! // Nest it in the router of a service, and run the sampler beside the service.
//! let service = axum::Router::<()>::new().nest_service("/ops/outbox", dashboard.router());
//! dashboard.run(shutdown).await;
//! # Ok(()) }
//! ```
//!
//! Without a token, everybody who reaches the router may look, and nobody may act. See [`Access`].

mod api;
mod error;
mod findings;
mod health;
mod json;
mod live;
mod options;
mod page;
mod router;
mod sampler;
mod security;
mod serve;
mod shared;
mod text;
mod trace;

pub use findings::Findings;
pub use options::{
    Access, DashboardOptions, Encode, Metrics, MetricsFormat, Role, RouteFacts, Sampled, Token,
};
pub use serve::Peer;
pub use shared::{Dashboard, Ports};
pub use trace::TraceUrl;
