//! What a dead entry does to the entries of its key behind it.

use std::fmt;

/// What a dead entry does to the entries of its key behind it, on a route that is read by lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDead {
    /// They wait until the dead entry is requeued or discarded.
    #[default]
    Block,
    /// They are delivered without it.
    Skip,
}

impl OnDead {
    /// The name in SQL and in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for OnDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
