//! The dashboard as a service that embeds it sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic in a test is the report")]

mod acting;
mod counting;
mod guessing;
mod served;
mod trail;
mod viewers;
