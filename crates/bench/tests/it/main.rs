//! The real binary, driven as `cargo xtask bench` drives it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic in a test is the report")]

mod bench;
#[path = "../../../cli/tests/it/home.rs"]
#[allow(dead_code, reason = "tests of the binary `pillarbox` use the rest")]
mod home;
#[path = "../../../cli/tests/it/mqtt.rs"]
#[allow(dead_code, reason = "tests of the binary `pillarbox` use the rest")]
mod mqtt;
#[path = "../../../cli/tests/it/place.rs"]
#[allow(dead_code, reason = "tests of the binary `pillarbox` use the rest")]
mod place;
#[path = "../../../cli/tests/it/server.rs"]
#[allow(dead_code, reason = "tests of the binary `pillarbox` use the rest")]
mod server;
#[path = "../../../cli/tests/it/sqs.rs"]
#[allow(dead_code, reason = "tests of the binary `pillarbox` use the rest")]
mod sqs;

/// What is driven.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pillarbox-bench");
