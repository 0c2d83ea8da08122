//! The operator's side over HTTP: health, an API and a live page, as an axum router.
//!
//! [`Dashboard`] takes the operator's ports of a store. [`Dashboard::run`] is the sampler: one future that reads the
//! store about once a second and keeps fifteen minutes of history. Every page and every stream shows what it has read,
//! so ten open pages cost the database as much as one. [`Dashboard::router`] is the server side, to embed in a service;
//! [`Dashboard::serve`] serves it on a listener with limits on connections and time.
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
pub use options::{Access, DashboardOptions, Encode, Metrics, Role, RouteFacts, Sampled, Token};
pub use serve::Peer;
pub use shared::{Dashboard, Ports};
pub use trace::TraceUrl;
