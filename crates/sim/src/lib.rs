//! The deterministic simulator: one seed is one world.
//!
//! A world has producers that stage and roll back, relays that are killed, frozen and stopped, an operator, and a
//! database and a destination on which every call can fail before its effect, after it, late or never. Time is
//! paused and chance comes from the seed, so the same seed gives the same history, byte for byte. When the faults
//! are over the world must become quiet, and then the history is checked against the invariants.
//!
//! ```
//! use pillarbox_sim::{Plan, run};
//!
//! let run = run(&Plan::draw(1))?;
//! assert!(run.violations.is_empty(), "{run}");
//! # Ok::<(), pillarbox_core::Error>(())
//! ```

mod actor;
mod chaos;
mod fault;
mod history;
mod invariant;
mod life;
mod mutant;
mod plan;
mod report;
mod rng;
mod run;
mod shrink;
mod world;

pub use fault::Fault;
pub use history::History;
pub use invariant::Violation;
pub use mutant::SimMutant;
pub use plan::{LanePlan, Mix, Plan, SagaPlan};
pub use report::{failure_report, seeds};
pub use run::{Run, run};
pub use shrink::{Shrunk, shrink};
