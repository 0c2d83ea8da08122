//! Names of tables and indexes, and the one place where they get into SQL text.

use pillarbox_core::CRASHES_IN_COMPANY;

use crate::options::Options;
use crate::row::{COLUMNS, SAGA};

/// Placeholders of the SQL files, and the suffix of what each stands for.
const NAMES: [(&str, &str); 30] = [
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
    ("{serial}", "serial"),
    ("{versions}", "schema"),
    ("{probe}", "probe"),
    ("{probe_trigger}", "probe_trigger"),
    ("{event_index}", "outbox_event"),
    ("{open_index}", "outbox_open"),
    ("{lane_index}", "outbox_lane"),
    ("{causal_index}", "outbox_causal"),
    ("{session_index}", "lane_session_of"),
    ("{audit_event_index}", "audit_event"),
    ("{audit_subject_index}", "audit_subject"),
    ("{audit_saga_index}", "audit_saga"),
    ("{saga_subject_index}", "saga_subject"),
    ("{saga_dead_index}", "saga_dead"),
    ("{saga_due_index}", "saga_due"),
    ("{saga_status_index}", "saga_status"),
    ("{saga_ended_index}", "saga_ended"),
    ("{saga_open_index}", "saga_open"),
    ("{inbox_age_index}", "inbox_age"),
];

/// The database's clock in whole microseconds. It stands still during a statement, and no time zone is involved.
pub(crate) const NOW: &str = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))";
/// Texts are compared byte by byte, whatever the database's own default is.
const TABLE: &str = "engine = InnoDB default charset = utf8mb4 collate = utf8mb4_bin row_format = dynamic";
/// Texts of a list: otherwise they would have the character set of the database.
const TEXT: &str = "character set utf8mb4 collate utf8mb4_bin";
/// The attempts that count towards the allowed ones; see `attempts_counted`.
const COUNTED: &str = "(attempts - least(crashes, {in_company}))";
/// Not a step of a saga: the entries that a relay without sagas may claim. Steps are in the lane that no
/// relay reads, `NO_LANE`.
const PLAIN: &str = "(lane <> 64)";

/// Parts of the statements by which operators see entries. They have names in them, so they come first.
const PARTS: [(&str, &str); 3] = [
    ("{matching}", include_str!("sql/matching.sql")),
    ("{heads}", include_str!("sql/heads.sql")),
    ("{readers}", include_str!("sql/readers.sql")),
];

/// Lists that are bound as one JSON value and read as a table: `{seqs:2}` is the parameter `?2`.
const LISTS: [(&str, &str); 5] = [
    ("seqs", "seq bigint path '$'"),
    ("held", "seq bigint path '$[0]', fence bigint path '$[1]'"),
    ("ids", "id varchar(36) {text} path '$'"),
    ("stale", "seq bigint path '$[0]', spent tinyint path '$[1]', error longtext {text} path '$[2]'"),
    (
        "verdicts",
        "seq bigint path '$[0]', fence bigint path '$[1]', name varchar(16) {text} path '$[2]', \
         wait bigint path '$[3]', failure longtext {text} path '$[4]'",
    ),
];

/// The quoted names for one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// The bare prefix, for lookups in the catalogue; always bound as a value.
    pub(crate) prefix: String,
    names: Vec<(String, String)>,
}

impl Tables {
    /// The names that these settings mean.
    pub(crate) fn new(options: &Options) -> Self {
        let prefix = options.prefix.as_str();
        let mut names: Vec<(String, String)> =
            PARTS.map(|(mark, text)| (mark.to_owned(), text.to_owned())).into();
        // The prefix matches `[a-z_][a-z0-9_]*` by construction, so quotes are all the escaping there is. These work
        // in every SQL mode.
        names.extend(NAMES.map(|(mark, suffix)| (mark.to_owned(), format!("`{prefix}_{suffix}`"))));
        for (mark, columns) in LISTS {
            names.extend((1..=4).map(|place| {
                let table = format!("json_table(?{place}, '$[*]' columns ({columns}))");
                (format!("{{{mark}:{place}}}"), table)
            }));
        }
        let of = |table: &str, columns: &[&str]| {
            columns.iter().map(|column| format!("{table}`{column}`")).collect::<Vec<_>>().join(", ")
        };
        let parts = [
            ("{now}", NOW.to_owned()),
            ("{table}", TABLE.to_owned()),
            ("{text}", TEXT.to_owned()),
            ("{counted}", COUNTED.to_owned()),
            ("{plain}", PLAIN.to_owned()),
            ("{columns}", of("", &COLUMNS)),
            ("{entry_columns}", of("entry.", &COLUMNS)),
            ("{saga_columns}", of("saga.", &SAGA)),
            ("{in_company}", CRASHES_IN_COMPANY.to_string()),
        ];
        names.extend(parts.map(|(mark, text)| (mark.to_owned(), text)));
        Self { prefix: prefix.to_owned(), names }
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
        assert_eq!(PLAIN, format!("(lane <> {})", pillarbox_core::NO_LANE));
    }

    #[test]
    fn names_are_filled_in_with_quotes() {
        let tables = Tables::new(&Options::default().prefix(Ident::new("order").unwrap()));
        assert_eq!(tables.fill("select 1 from {outbox}"), "select 1 from `order_outbox`");
        assert_eq!(
            tables.fill("from {seqs:2} as s"),
            "from json_table(?2, '$[*]' columns (seq bigint path '$')) as s"
        );
    }
}
