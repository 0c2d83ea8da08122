//! Names of tables and indexes, and the one place where they get into SQL text.

use pillarbox_core::CRASHES_IN_COMPANY;

use crate::options::Options;
use crate::row::{COLUMNS, SAGA};

/// Placeholders of the SQL files, and the suffix of what each stands for.
const NAMES: [(&str, &str); 31] = [
    ("{outbox}", "outbox"),
    ("{audit}", "audit"),
    ("{saga}", "saga"),
    ("{audit_unchanged}", "audit_unchanged"),
    ("{audit_kept}", "audit_kept"),
    ("{inbox}", "inbox"),
    ("{inbox_fence}", "inbox_fence"),
    ("{relay}", "relay"),
    ("{route_state}", "route_state"),
    ("{lane_session}", "lane_session"),
    ("{lane}", "lane"),
    ("{versions}", "schema"),
    ("{ready_index}", "outbox_ready"),
    ("{due_index}", "outbox_due"),
    ("{lane_index}", "outbox_lane"),
    ("{lane_trigger}", "outbox_lane_of"),
    ("{stuck_index}", "outbox_stuck"),
    ("{ended_index}", "outbox_ended"),
    ("{dead_index}", "outbox_dead"),
    ("{failed_index}", "outbox_failed"),
    ("{causal_index}", "outbox_causal"),
    ("{audit_event_index}", "audit_event"),
    ("{audit_subject_index}", "audit_subject"),
    ("{audit_saga_index}", "audit_saga"),
    ("{dead_step_index}", "outbox_dead_step"),
    ("{saga_dead_index}", "saga_dead"),
    ("{saga_due_index}", "saga_due"),
    ("{saga_status_index}", "saga_status"),
    ("{saga_ended_index}", "saga_ended"),
    ("{saga_open_index}", "saga_open"),
    ("{inbox_age_index}", "inbox_age"),
];

/// The database's clock in whole microseconds. SQLite before 3.42 knows no `subsec`; the half makes up for
/// a Julian day being a float.
const NOW: &str = "(cast((julianday('now') - 2440587.5) * 86400000.0 + 0.5 as integer) * 1000)";

/// Not at its end, and at its end. One text each, because SQLite uses a partial index only for a query that has the
/// index's very condition in it. Not an `in (…)`: in an index or a check SQLite builds that list anew for every row,
/// which was a quarter of all work.
const LIVE: &str = "(status = 'pending' or status = 'retrying' or status = 'in_flight')";
/// What lanes read: live, and not claimed as a row.
const UNSETTLED: &str = "(status = 'pending' or status = 'retrying')";
const ENDED: &str = "(status = 'delivered' or status = 'dead' or status = 'discarded')";
/// What failed, and what somebody gave up. The signs keep SQLite from looking for each status by an index of what is at its end.
const FAILED: &str = "(+status = 'dead' or +status = 'discarded' or +status = 'retrying')";
/// The attempts that count towards the allowed ones; see `attempts_counted`.
const COUNTED: &str = "(attempts - min(crashes, {in_company}))";

/// Parts of the statements by which operators see entries. They have names and other parts in them, so they come first, and
/// a part before those that it has in it.
const PARTS: [(&str, &str); 5] = [
    ("{matching}", include_str!("sql/matching.sql")),
    ("{standing}", include_str!("sql/standing.sql")),
    ("{blocked}", include_str!("sql/blocked.sql")),
    ("{handed}", include_str!("sql/handed.sql")),
    ("{heads}", include_str!("sql/heads.sql")),
];

/// Not a step of a saga: the entries that a relay without sagas may claim. Steps are in the lane that no
/// relay reads, `NO_LANE`.
const PLAIN: &str = "(lane is not 64)";

/// The quoted names for one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// The bare prefix, for lookups in the catalogue; always bound as a value.
    pub(crate) prefix: String,
    names: Vec<(&'static str, String)>,
}

impl Tables {
    /// The names that these settings mean.
    pub(crate) fn new(options: &Options) -> Self {
        let prefix = options.prefix.as_str();
        // The prefix matches `[a-z_][a-z0-9_]*` by construction, so quotes are all the escaping there is.
        let names = NAMES.map(|(mark, suffix)| (mark, format!("\"{prefix}_{suffix}\"")));
        let parts = [
            ("{now}", NOW),
            ("{live}", LIVE),
            ("{unsettled}", UNSETTLED),
            ("{ended}", ENDED),
            ("{failed}", FAILED),
            ("{counted}", COUNTED),
            ("{plain}", PLAIN),
        ];
        let parts = parts.map(|(mark, text)| (mark, text.to_owned())).into_iter();
        let saga = SAGA.map(|column| format!("saga.{column}")).join(", ");
        let parts = parts.chain([
            ("{columns}", COLUMNS.join(", ")),
            ("{saga_columns}", saga),
            ("{in_company}", CRASHES_IN_COMPANY.to_string()),
        ]);
        let first = PARTS.map(|(mark, text)| (mark, text.to_owned())).into_iter();
        Self { prefix: prefix.to_owned(), names: first.chain(names).chain(parts).collect() }
    }

    /// Puts the names in the place of `{outbox}` and the like.
    pub(crate) fn fill(&self, template: &str) -> String {
        self.names.iter().fold(template.to_owned(), |text, (mark, name)| text.replace(mark, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::Ident;

    #[test]
    fn steps_are_where_nobody_reads() {
        assert_eq!(PLAIN, format!("(lane is not {})", pillarbox_core::NO_LANE));
    }

    #[test]
    fn names_are_filled_in_with_quotes() {
        let tables = Tables::new(&Options::default().prefix(Ident::new("order").unwrap()));
        assert_eq!(tables.fill("select 1 from {outbox}"), "select 1 from \"order_outbox\"");
    }
}
