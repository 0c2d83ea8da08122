//! The names of the tables, quoted and with their schema: the only names that get into SQL text.

use pillarbox_core::{CRASHES_IN_COMPANY, Ident};

use crate::lanes::row::{READ, READ_COLUMNS};
use crate::options::Options;
use crate::row::{CLAIMED, DELIVERY, SAGA};

/// The lane of an entry: by its key, or by its number if it has none. It never changes, so the index on it is
/// where it is kept. The queries must say it in the same words.
const LANE_OF: &str = "(coalesce(hashtextextended(key, 0), seq) & 63)";

/// The attempts that count towards the allowed ones; see `attempts_counted`.
const COUNTED: &str = "(attempts - least(crashes, {in_company}))";
/// The payload in bytes, whichever column has it; null if both have one, or neither.
const PAYLOAD_OF: &str = "case when payload is null then payload_bytes \
    when payload_bytes is null then convert_to(payload, 'UTF8') end";
/// Not a step of a saga, as `pillarbox_core::is_step` has it: what a relay that knows no sagas may have. Steps are in no
/// lane, whatever `LANE_OF` says of them.
const PLAIN: &str = "(group_id is null or content_type <> 'application/vnd.pillarbox.step+json')";

/// Parts of the statements that read lanes.
const WRITERS: &str = include_str!("sql/lanes_writers.sql");
const DRAWN: &str = include_str!("sql/lanes_drawn.sql");

/// Parts of the statements by which operators see and change entries.
const MATCHING: &str = include_str!("sql/matching.sql");
const NARROWED: &str = include_str!("sql/narrowed.sql");
const NARROW: &str = include_str!("sql/narrow.sql");
const OPEN_ROUTE: &str = include_str!("sql/open_route.sql");
const HEADS_MEANT: &str = include_str!("sql/heads_meant.sql");
const CHANGING: &str = include_str!("sql/changing.sql");
const HEADS: &str = include_str!("sql/heads.sql");

/// Quoted names of everything that belongs to one outbox.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// The bare schema, for lookups in the catalogue; always bound as a value.
    pub(crate) schema: String,
    /// The bare prefix, for lookups in the catalogue; always bound as a value.
    pub(crate) prefix: String,
    names: [(&'static str, String); 56],
}

impl Tables {
    /// The names that these settings mean.
    pub(crate) fn new(options: &Options) -> Self {
        let schema = options.schema.as_ref().map_or("public", Ident::as_str);
        let prefix = options.prefix.as_str();
        // Both parts match `[a-z_][a-z0-9_]*` by construction, so quotes are all the escaping there is.
        let table = |name: &str| format!("\"{schema}\".\"{prefix}_{name}\"");
        let bare = |name: &str| format!("\"{prefix}_{name}\"");
        Self {
            schema: schema.to_owned(),
            prefix: prefix.to_owned(),
            names: [
                // These have names in them.
                ("{matching}", MATCHING.to_owned()),
                ("{narrowed}", NARROWED.to_owned()),
                ("{narrow}", NARROW.to_owned()),
                ("{open_route}", OPEN_ROUTE.to_owned()),
                ("{heads_meant}", HEADS_MEANT.to_owned()),
                ("{changing}", CHANGING.to_owned()),
                ("{heads}", HEADS.to_owned()),
                ("{writers}", WRITERS.to_owned()),
                ("{drawn}", DRAWN.to_owned()),
                ("{counted}", COUNTED.to_owned()),
                ("{counted_o}", COUNTED.replace("attempts", "o.attempts").replace("crashes", "o.crashes")),
                ("{in_company}", CRASHES_IN_COMPANY.to_string()),
                ("{claimed}", CLAIMED.to_owned()),
                ("{read}", READ.to_owned()),
                ("{lane_of}", LANE_OF.to_owned()),
                ("{plain}", PLAIN.to_owned()),
                ("{lane_of_o}", LANE_OF.replace("key", "o.key").replace("seq", "o.seq")),
                ("{unread}", vec!["null"; READ_COLUMNS - 1].join(", ")),
                ("{columns}", format!("{CLAIMED}, {DELIVERY}")),
                ("{saga_columns}", SAGA.to_owned()),
                ("{payload_of}", PAYLOAD_OF.to_owned()),
                ("{schema}", format!("\"{schema}\"")),
                ("{outbox}", table("outbox")),
                ("{audit}", table("audit")),
                ("{saga}", table("saga")),
                ("{audit_guard}", table("audit_guard")),
                ("{audit_rows}", bare("audit_rows")),
                ("{audit_whole}", bare("audit_whole")),
                ("{inbox}", table("inbox")),
                ("{inbox_fence}", table("inbox_fence")),
                ("{relay}", table("relay")),
                ("{route_state}", table("route_state")),
                ("{lane}", table("lane")),
                ("{lane_session}", table("lane_session")),
                ("{lane_handed}", table("lane_handed")),
                ("{versions}", table("schema")),
                ("{stage}", table("stage")),
                ("{serialize}", table("serialize")),
                ("{may_claim}", table("may_claim")),
                ("{status}", table("status")),
                ("{route}", table("route")),
                ("{payload}", table("payload")),
                ("{event_index}", bare("outbox_event")),
                ("{open_index}", bare("outbox_open")),
                ("{lane_index}", bare("outbox_lane")),
                ("{ended_index}", bare("outbox_ended")),
                ("{causal_index}", bare("outbox_causal")),
                ("{audit_event_index}", bare("audit_event")),
                ("{audit_subject_index}", bare("audit_subject")),
                ("{audit_saga_index}", bare("audit_saga")),
                ("{saga_dead_index}", bare("saga_dead")),
                ("{saga_due_index}", bare("saga_due")),
                ("{saga_status_index}", bare("saga_status")),
                ("{saga_ended_index}", bare("saga_ended")),
                ("{saga_open_index}", bare("saga_open")),
                ("{inbox_age_index}", bare("inbox_age")),
            ],
        }
    }

    /// Puts the names in the place of `{outbox}` and the like.
    pub(crate) fn fill(&self, template: &str) -> String {
        self.names.iter().fold(template.to_owned(), |text, (mark, name)| text.replace(mark, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_as_everywhere() {
        assert!(PLAIN.contains(pillarbox_core::STEP_CONTENT_TYPE));
    }

    #[test]
    fn every_name_is_quoted_and_has_its_schema() {
        let options =
            Options::default().schema(Ident::new("order").unwrap()).prefix(Ident::new("user").unwrap());
        let tables = Tables::new(&options);
        assert_eq!(tables.fill("select 1 from {outbox}"), "select 1 from \"order\".\"user_outbox\"");
        assert_eq!(Tables::new(&Options::default()).fill("{versions}"), "\"public\".\"pillarbox_schema\"");
    }
}
