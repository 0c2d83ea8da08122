//! Hybrid logical clock stamps: close to wall time, and always above every stamp that this process has seen.

mod clock;
mod stamp;

#[cfg(test)]
mod tests;

pub use clock::HybridClock;
pub use stamp::Hlc;
