//! The query plans, beside many settled entries: what runs for every batch goes by its index, and sorts nothing.

use std::collections::BTreeMap;

use pillarbox_conformance::StoreHarness;
use pillarbox_store_mysql::statements;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};

use crate::harness::MySqlHarness;

const BACKLOG: &str = "insert into pillarbox_outbox (route, type, payload, `key`, hlc, status, settled_at, due_at) \
    with recursive n as (select 1 as i union all select i + 1 from n where i < 500), \
    m as (select 1 as j union all select j + 1 from m where j < 40) \
    select if(i % 10, 'orders', 'mails'), 't', '0', concat('k-', i), i, \
      case when j <= 36 then 'delivered' when j = 37 then 'dead' else 'pending' end, if(j <= 37, i, null), \
      if(j = 40, 1, null) from n, m";

struct Planned {
    harness: MySqlHarness,
    statements: BTreeMap<String, String>,
    is_mariadb: bool,
}

/// A step of a plan: the table, the index, and what else is said.
#[derive(Debug)]
struct Step {
    table: String,
    index: Option<String>,
    extra: String,
}

impl Planned {
    async fn new() -> Self {
        let harness = MySqlHarness::start().await;
        harness.database.execute(BACKLOG).await;
        let version: String = harness.database.rows("select version()").await[0].get_unchecked(0);
        let statements = statements(&harness.options).into_iter().collect();
        Self { harness, statements, is_mariadb: version.contains("MariaDB") }
    }

    /// What the server says it will do, with values for all places: a JSON list, or a number.
    async fn plan(&self, name: &str) -> Vec<Step> {
        let explain = if self.is_mariadb { "explain " } else { "explain format=traditional " };
        let sql = &self.statements[name];
        let mut text = explain.to_owned();
        for (place, part) in sql.split('?').enumerate() {
            if place > 0 {
                let before = sql.split('?').take(place).collect::<Vec<_>>().join("?");
                let value = if before.ends_with("json_table(") {
                    "'[1, 2, 3]'"
                } else if before.ends_with("using ") {
                    "'[]'"
                } else if before.trim_end().ends_with("route =") {
                    "'orders'"
                } else {
                    "1"
                };
                text.push_str(value);
            }
            text.push_str(part);
        }
        let mut connection: MySqlConnection = self.harness.database.connect().await;
        let rows = sqlx::raw_sql(AssertSqlSafe(text.clone())).fetch_all(&mut connection).await;
        let rows = rows.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        connection.close().await.unwrap();
        let column = |row: &sqlx::mysql::MySqlRow, name: &str| {
            row.try_get_unchecked::<Option<String>, _>(name).ok().flatten()
        };
        rows.iter()
            .map(|row| Step {
                table: column(row, "table").unwrap_or_default(),
                index: column(row, "key"),
                extra: column(row, "Extra").unwrap_or_default(),
            })
            .collect()
    }
}

async fn check(planned: &Planned, when: &str, name: &str, index: &str) {
    let plan = planned.plan(name).await;
    let of_outbox: Vec<&Step> =
        plan.iter().filter(|step| ["pillarbox_outbox", "entry", "dead"].contains(&&*step.table)).collect();
    assert!(!of_outbox.is_empty(), "{when}: {name} does not look at the outbox: {plan:?}");
    for step in of_outbox {
        assert_eq!(step.index.as_deref(), Some(index), "{when}: {name}: {plan:?}");
        // A few groups are sorted, or what a reap or a suspect search has found.
        let sorts = name.starts_with("count_") || name == "routes";
        assert!(sorts || !step.extra.contains("filesort"), "{when}: {name} sorts: {plan:?}");
    }
}

async fn check_all(planned: &Planned, when: &str) {
    let open = "pillarbox_outbox_open";
    for name in
        ["claim_staged", "claim_due", "stale", "stale.lock", "suspects", "count_ready", "count_due", "routes"]
    {
        check(planned, when, name, open).await;
    }
    check(planned, when, "lanes_open", "pillarbox_outbox_lane").await;
    for name in ["count_ended", "purge", "purgeable"] {
        check(planned, when, name, "pillarbox_outbox_ended").await;
    }
    for name in [
        "claim_take",
        "extend",
        "held",
        "settle_delivered",
        "settle_deleted",
        "settle_mixed",
        "settle_dead",
        "reap",
        "reap_audit",
        "lanes_fetch",
        "lanes_settleable",
        "lanes_settle_delivered",
        "lanes_settle_deleted",
        "lanes_settle_failed",
        "lanes_spend",
        "created",
        "requeue",
        "discard",
        "hasten",
    ] {
        check(planned, when, name, "PRIMARY").await;
    }
    check(planned, when, "stage_fresh", "pillarbox_outbox_event").await;
    check(planned, when, "saga_entries", "pillarbox_outbox_event").await;
}

#[tokio::test]
async fn every_batch_goes_by_its_index_whatever_the_statistics_say() {
    let planned = Planned::new().await;
    check_all(&planned, "with the statistics of the moment").await;
    planned.harness.database.execute("analyze table pillarbox_outbox").await;
    check_all(&planned, "with fresh statistics").await;
    planned.harness.database.execute("delete from pillarbox_outbox; analyze table pillarbox_outbox").await;
    check_all(&planned, "with the statistics of an empty table").await;
}
