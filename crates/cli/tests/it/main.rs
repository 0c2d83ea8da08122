//! The real binary, driven as its users drive it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic in a test is the report")]

mod bad_input;
mod bench;
mod brokers;
mod bulk;
mod clock;
mod config;
mod consume;
mod crash;
mod daemon;
mod dashboard;
mod demo;
mod doctor;
mod failover;
mod findings;
mod guide;
mod home;
mod killed;
mod many_relays;
mod mixing;
mod mqtt;
mod operate;
mod order;
mod outage;
mod output;
mod pair;
mod place;
mod relay;
mod restart;
mod saga;
mod saga_ends;
mod schema;
mod server;
mod services;
mod shipped;
mod signals;
mod sqs;
mod stage;
mod storm;
mod suspects;
mod terminal;
mod traces;
mod verify;

/// What is driven.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pillarbox");
