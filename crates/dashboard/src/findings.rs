//! The seam for a doctor: something that looks for what will hurt.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use pillarbox_core::Result;

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It hurts now.
    Problem,
    /// It will hurt.
    Warning,
    /// It was checked and is in order.
    Fine,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What was found.
    pub what: String,
    /// Why it will hurt.
    pub why: String,
    /// What to do or to type.
    pub next: String,
}

/// Looks for what will hurt. It runs when somebody opens the view, one run at a time.
pub trait Findings: Send + Sync {
    /// Everything that was checked.
    fn look(&self) -> Pin<Box<dyn Future<Output = Result<Vec<Finding>>> + Send + '_>>;
}

impl fmt::Debug for dyn Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Findings")
    }
}
