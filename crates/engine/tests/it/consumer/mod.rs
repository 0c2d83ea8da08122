//! The consumer, with the broker and the inbox in memory: in paused time where time matters, and behind a relay.

mod batches;
mod relay;
mod rig;
mod running;
mod spawning;
mod time;
