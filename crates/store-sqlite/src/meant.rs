//! The entries that an operator means, by ids or by a filter: which statement finds them, and the values of `matching.sql`.

use pillarbox_core::port::shared::Asked;
use pillarbox_core::{RouteName, Standing, Status};

use crate::bind::Bind;
use crate::sql::{Meant, Sql};

/// The text that finds them by an index.
pub(crate) fn text<'m>(asked: &Asked<'_>, meant: &'m Meant) -> &'m Sql {
    let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded | Status::Retrying);
    if asked.ids.is_some() {
        &meant.ids
    } else if asked.statuses.iter().all(rare) {
        &meant.failed
    } else if asked.statuses.iter().any(|status| status.is_terminal()) {
        &meant.any
    } else {
        &meant.waiting
    }
}

/// The values of `matching.sql`.
pub(crate) fn bind(asked: &Asked<'_>) -> Bind {
    let filter = asked.filter;
    let bind = Bind::new()
        // Where the stored status says it all, it is not asked for.
        .value(filter.status.filter(|_| asked.is_derived()).map(Standing::as_str))
        .json(&asked.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>())
        .value(filter.route.as_ref().map(RouteName::to_string))
        .value(filter.event_type.clone())
        .value(filter.key.clone())
        .value(filter.tenant.clone())
        .value(filter.error_begins())
        .at(filter.since)
        .at(filter.until)
        .value(filter.after);
    let bind = match asked.ids {
        Some(ids) => bind.json(&ids),
        None => bind.value(None::<String>),
    };
    bind.at(asked.now)
        .json(&asked.lanes())
        .number(asked.limit.map_or(-1, i64::from))
        .value(asked.waits.then_some(1))
}
