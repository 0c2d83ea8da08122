//! Which entries an operator selects.

use crate::error::{Error, Result};
use crate::limits::{LIST_DEFAULT, LIST_MAX};
use crate::name::RouteName;
use crate::outcome::FailureKind;
use crate::standing::Standing;
use crate::status::Status;
use crate::time::Timestamp;

/// Which entries to list. Every field that is set narrows the list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Filter {
    /// The standing as an operator sees it: an entry that a lane has handed out is in flight. Default: any.
    pub status: Option<Standing>,
    /// Default: any.
    pub route: Option<RouteName>,
    /// Default: any.
    pub event_type: Option<String>,
    /// Default: any.
    pub key: Option<String>,
    /// Default: any.
    pub tenant: Option<String>,
    /// Only entries whose last error is of this kind. Default: any.
    pub error: Option<FailureKind>,
    /// Only entries whose last error has this code too, such as `timeout`. It counts only together with `error`.
    /// Default: any.
    pub error_code: Option<String>,
    /// Only entries that reached a terminal status at this time or later. For other entries, the time of staging is
    /// compared. Default: any.
    pub since: Option<Timestamp>,
    /// Only entries that reached a terminal status, or else were staged, before this time. Default: any.
    pub until: Option<Timestamp>,
    /// Only entries above this sequence number, the last one of the previous page. Default: from the beginning.
    pub after: Option<i64>,
    /// The most entries to list. Default: [`LIST_DEFAULT`].
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            status: None,
            route: None,
            event_type: None,
            key: None,
            tenant: None,
            error: None,
            error_code: None,
            since: None,
            until: None,
            after: None,
            limit: LIST_DEFAULT,
        }
    }
}

impl Filter {
    /// Dead entries, oldest first.
    #[must_use]
    pub fn dead() -> Self {
        Self::default().status(Status::Dead)
    }

    /// Selects only entries of this route.
    #[must_use]
    pub fn route(mut self, route: RouteName) -> Self {
        self.route = Some(route);
        self
    }

    /// Selects only entries of this status, or only blocked entries.
    #[must_use]
    pub fn status(mut self, status: impl Into<Standing>) -> Self {
        self.status = Some(status.into());
        self
    }

    /// Selects only entries of this type.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Selects only entries of this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Selects only entries of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Selects only entries whose last error is of this kind.
    #[must_use]
    pub fn error(mut self, error: FailureKind) -> Self {
        self.error = Some(error);
        self
    }

    /// Selects only entries whose last error has this code too.
    #[must_use]
    pub fn error_code(mut self, code: impl Into<String>) -> Self {
        self.error_code = Some(code.into());
        self
    }

    /// How a stored error with `: ` behind it begins, if it is one of those selected.
    #[must_use]
    pub fn error_begins(&self) -> Option<String> {
        let kind = self.error?.as_str();
        Some(match &self.error_code {
            Some(code) => format!("{kind}/{code}: "),
            None => format!("{kind}/"),
        })
    }

    /// Selects only entries that reached a terminal status, or else were staged, at this time or later.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// Selects only entries that reached a terminal status, or else were staged, before this time.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// Selects only entries above this sequence number.
    #[must_use]
    pub fn after(mut self, seq: i64) -> Self {
        self.after = Some(seq);
        self
    }

    /// Sets the most entries to list.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses a limit over [`LIST_MAX`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the limit.
    pub fn check(&self) -> Result<()> {
        if self.limit > LIST_MAX {
            return Err(Error::invalid(format!(
                "the limit is {}; at most {LIST_MAX} entries can be listed at once",
                self.limit
            )));
        }
        Ok(())
    }
}
