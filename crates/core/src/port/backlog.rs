//! What waits in each lane of a route.

use crate::error::{Error, ErrorKind, Result};

use super::shared::Columns;

/// A lane of a route as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneBacklog {
    /// The lane's number, below [`LANES`](super::LANES).
    pub lane: u8,
    /// How many entries of the lane are pending or retrying, counted up to
    /// [`LANE_WAITING_MAX`](crate::limits::LANE_WAITING_MAX). This includes entries that a relay has read and
    /// not settled, entries that are not due yet, and entries behind a dead one of their key.
    pub waiting: u64,
    /// The name of the relay that holds the lane. `None`: no relay does. A relay that died holds its lanes
    /// until another one buries its session.
    pub owner: Option<String>,
}

impl LaneBacklog {
    /// Reads a row of `lane, entries, owner or null`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn read(row: &mut impl Columns) -> Result<Self> {
        let lane = u8::try_from(row.number()?)
            .map_err(|_| Error::new(ErrorKind::Corrupt, "a stored lane has a number that no lane has"))?;
        Ok(Self { lane, waiting: row.count()?, owner: row.optional_text()? })
    }
}
