//! Everything that this crate promises, on a real RabbitMQ.

mod errors;
mod faults;
mod harness;
mod readback;
mod relay;
mod sink;
mod source;
