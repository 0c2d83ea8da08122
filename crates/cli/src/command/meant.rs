//! Which entries: the filters that `list` and all changes by hand share.

use clap::Args;
use pillarbox_core::port::{Clock, Filter};
use pillarbox_core::{FailureKind, RouteName, Standing, Timestamp, parse_duration};
use pillarbox_host::SystemClock;

/// What narrows a selection of entries.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    /// Only this route
    #[arg(long)]
    pub(crate) route: Option<RouteName>,
    /// Only this status: pending, in_flight, retrying, blocked, delivered, dead or discarded
    #[arg(long)]
    pub(crate) status: Option<Standing>,
    /// Only this event type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// Only this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Only this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only entries whose last error is of this kind: rejected, failed, down, unknown, panicked, undecodable,
    /// unknown_handler or lease_expired
    #[arg(long, value_name = "KIND")]
    pub(crate) error: Option<FailureKind>,
    /// Only entries that ended at this time or later, or were staged then if they have not ended. Write a
    /// time, for example 2026-01-31T08:00:00Z, or how long ago, for example 2h
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) since: Option<Timestamp>,
    /// Only entries that ended, or were staged if they have not ended, before this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) until: Option<Timestamp>,
}

impl FilterArgs {
    /// Whether nothing narrows.
    pub(crate) fn is_empty(&self) -> bool {
        self.route.is_none()
            && self.status.is_none()
            && self.event_type.is_none()
            && self.key.is_none()
            && self.tenant.is_none()
            && self.error.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// The same for the store.
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        filter.route.clone_from(&self.route);
        filter.status = self.status;
        filter.event_type.clone_from(&self.event_type);
        filter.key.clone_from(&self.key);
        filter.tenant.clone_from(&self.tenant);
        filter.error = self.error;
        filter.since = self.since;
        filter.until = self.until;
        filter
    }
}

/// A time, or how long ago it was by this machine's clock.
fn parse_when(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = parse_duration(text).map_err(|_| {
        format!(
            "{text:?} is neither a time nor a duration. Write a time like 2026-01-31T08:00:00Z, or a \
             duration like 2h",
        )
    })?;
    Ok(SystemClock.now().saturating_sub(ago))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_given_as_such_or_as_how_long_ago() {
        assert_eq!(parse_when("2026-01-31T08:00:00Z").unwrap().to_string(), "2026-01-31T08:00:00Z");
        assert!(parse_when("2h").unwrap() < parse_when("1h").unwrap());
        assert!(parse_when("yesterday").unwrap_err().contains("2h"));
    }
}
