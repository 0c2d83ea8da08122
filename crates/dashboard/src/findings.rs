//! The seam for a doctor: something that looks for what will hurt.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use pillarbox_core::Result;
use pillarbox_core::port::Finding;

/// Looks for what will hurt. It runs when a user opens the view, one run at a time.
pub trait Findings: Send + Sync {
    /// Everything that was checked, the worst first.
    fn look(&self) -> Pin<Box<dyn Future<Output = Result<Vec<Finding>>> + Send + '_>>;
}

impl fmt::Debug for dyn Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Findings")
    }
}
