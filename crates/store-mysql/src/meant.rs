//! The entries that an operator means, by ids or by a filter: which statement finds them, and the values of `matching.sql`.

use pillarbox_core::port::shared::Asked;
use pillarbox_core::{RouteName, Standing, Status};

use crate::bind::Bind;
use crate::sql::{Meant, Sql};

/// The text that finds them by an index.
pub(crate) fn text<'m>(asked: &Asked<'_>, meant: &'m Meant) -> &'m Sql {
    let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded);
    match asked.ids {
        Some(_) => &meant.ids,
        None if asked.statuses.iter().all(rare) => &meant.ended,
        None if !asked.statuses.iter().any(|status| status.is_terminal()) => &meant.live,
        None => &meant.any,
    }
}

/// The values of `matching.sql`.
pub(crate) fn bind(asked: &Asked<'_>) -> Bind {
    let filter = asked.filter;
    let limit = asked.limit.map_or(i64::MAX, i64::from);
    let ids: Vec<String> = asked.ids.unwrap_or_default().iter().map(ToString::to_string).collect();
    Bind::new()
        .optional_text(filter.status.map(Standing::as_str))
        .json(&asked.statuses.iter().copied().map(number).collect::<Vec<_>>())
        .optional_text(filter.route.as_ref().map(RouteName::as_str))
        .optional_text(filter.event_type.clone())
        .optional_text(filter.key.clone())
        .optional_text(filter.tenant.clone())
        .optional_text(filter.error_begins())
        .at(filter.since)
        .at(filter.until)
        .optional_number(filter.after)
        .json(&ids)
        .at(asked.now)
        // Where the standing is more than the status, the limit is put on what is left.
        .number(if asked.is_derived() { i64::MAX } else { limit })
        .number(limit)
        .optional_number(asked.waits.then_some(1))
        .optional_number(None)
}

/// The number of a status in the column's type.
pub(crate) fn number(status: Status) -> i64 {
    match status {
        Status::Pending => 1,
        Status::Retrying => 2,
        Status::InFlight => 3,
        Status::Delivered => 4,
        Status::Dead => 5,
        Status::Discarded => 6,
    }
}
