//! Pillarbox over HTTP: a sink that sends webhooks, and the receiving side for services.
//!
//! A webhook is one POST per entry: CloudEvents 1.0 in binary mode, signed as [Standard Webhooks] says. An
//! address that is not on the public internet is refused unless the options allow it. Redirects are never
//! followed.
//!
//! ```no_run
//! use pillarbox_transport_http::{HttpSink, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::of_sink("https://example.org/hooks/{type}")?;
//! let options = options.secret(std::env::var("WEBHOOK_SECRET")?.parse()?);
//! // Hand the sink to a relay. It connects at the first delivery.
//! let sink = HttpSink::with_options(options)?;
//! # Ok(()) }
//! ```
//!
//! The receiving service takes events with [`Receiver`]. If it uses axum 0.8, it can use the extractor
//! `VerifiedEvent` (feature `axum`). [`Verifier`] alone verifies webhooks of other senders.
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com
// Shows beside each item which feature has it, on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod binding;
mod connection;
mod endpoint;
mod error;
#[cfg(feature = "axum")]
mod extractor;
mod options;
mod pool;
mod receiver;
mod resolver;
mod retry_after;
mod secret;
mod signature;
mod sink;
mod turns;
mod verify;

#[cfg(feature = "axum")]
pub use extractor::VerifiedEvent;
pub use options::{
    CONCURRENCY_DEFAULT, CONCURRENCY_MAX, CONNECT_TIMEOUT_DEFAULT, IDLE_MAX_DEFAULT, Options, PORTS_DEFAULT,
    TIMEOUT_DEFAULT,
};
pub use receiver::{BODY_TIMEOUT_DEFAULT, NotTaken, Receiver};
pub use resolver::{Resolver, SystemResolver};
pub use secret::Secret;
pub use sink::HttpSink;
pub use verify::{TOLERANCE_DEFAULT, Unverified, Verified, Verifier};
