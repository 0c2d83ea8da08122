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
        let planned = Self::empty().await;
        planned.harness.database.execute(BACKLOG).await;
        planned
    }

    async fn empty() -> Self {
        let harness = MySqlHarness::start().await;
        let version: String = harness.database.rows("select version()").await[0].get_unchecked(0);
        let statements = statements(&harness.options).into_iter().collect();
        Self { harness, statements, is_mariadb: version.contains("MariaDB") }
    }

    /// A statement with values for all places: a list, a route, a limit, or a number.
    fn text(&self, name: &str, limit: u32) -> String {
        let sql = &self.statements[name];
        let (mut text, mut previous, mut listed) = (String::new(), "", 0);
        for (place, part) in sql.split('?').enumerate() {
            if place > 0 {
                let before = text.trim_end();
                let follows = previous == ", " && listed > 0;
                listed = if before.ends_with("in (") || follows { listed + 1 } else { 0 };
                let value = match before {
                    _ if listed > 0 => listed.to_string(),
                    _ if before.ends_with("json_table(") => "'[1, 2, 3]'".to_owned(),
                    _ if before.ends_with("using") => "'[]'".to_owned(),
                    _ if before.ends_with("route =") => "'orders'".to_owned(),
                    _ if before.ends_with("route >") => "''".to_owned(),
                    _ if before.ends_with("limit") => limit.to_string(),
                    _ => "1".to_owned(),
                };
                text.push_str(&value);
            }
            previous = part;
            text.push_str(part);
        }
        text
    }

    /// What the server says it will do.
    async fn plan(&self, name: &str) -> Vec<Step> {
        let explain = if self.is_mariadb { "explain " } else { "explain format=traditional " };
        let text = format!("{explain}{}", self.text(name, 1));
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
        let sorts = name.starts_with("count_");
        assert!(sorts || !step.extra.contains("filesort"), "{when}: {name} sorts: {plan:?}");
    }
}

async fn check_all(planned: &Planned, when: &str) {
    let open = "pillarbox_outbox_open";
    for name in [
        "claim_staged",
        "claim_back",
        "claim_due",
        "stale",
        "stale.lock",
        "suspects",
        "count_ready",
        "count_due",
        "count_ended",
        "routes",
        "purge",
        "purgeable",
        "recent_ended",
        "waits",
    ] {
        check(planned, when, name, open).await;
    }
    for name in ["lanes_open", "lanes_all", "lanes_waiting"] {
        check(planned, when, name, "pillarbox_outbox_lane").await;
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

const PENDING: i64 = 200_000;
const LIMIT: u32 = 100;

/// Beside the pending entries there are 50,000 settled ones of the same route.
const QUEUE: &str = "insert into pillarbox_outbox (route, type, payload, `key`, status, attempts, settled_at) \
    with recursive n as (select 1 as i union all select i + 1 from n where i < 1000), \
    m as (select 1 as j union all select j + 1 from m where j < 250) \
    select 'orders', 't', '0', concat('k-', i), if(i > 800, 'delivered', 'pending'), i > 800, if(i > 800, j, null) from n, m";

/// How many rows and index entries the server went through for a statement, which is rolled back.
async fn rows_read(planned: &Planned, name: &str) -> i64 {
    let mut connection: MySqlConnection = planned.harness.database.connect().await;
    let text = planned.text(name, LIMIT);
    for statement in
        ["set session transaction isolation level read committed", "begin", "flush status", &text]
    {
        let ran = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).fetch_all(&mut connection).await;
        assert!(ran.is_ok(), "{name}: {ran:?}");
    }
    let read = sqlx::raw_sql("show session status like 'Handler_read%'").fetch_all(&mut connection).await;
    let number = |row: &sqlx::mysql::MySqlRow| row.get_unchecked::<String, _>(1).parse::<i64>().unwrap();
    let read = read.unwrap().iter().map(number).sum();
    connection.close().await.unwrap();
    read
}

#[tokio::test]
async fn among_200_000_pending_entries_a_batch_reads_little_more_than_itself() {
    let planned = Planned::empty().await;
    planned.harness.database.execute(QUEUE).await;
    let pending = "select count(*) from pillarbox_outbox where status = 'pending'";
    let pending: i64 = planned.harness.database.rows(pending).await[0].get_unchecked(0);
    assert_eq!(pending, PENDING);
    // Each of the rows is found by the index, and again in the table. The lists of these statements have four rows.
    let most = 3 * i64::from(LIMIT);
    for (name, finds) in [
        ("claim_staged", LIMIT),
        ("claim_back", 0),
        ("claim_due", 0),
        ("claim_take", 4),
        ("settle_delivered", 0),
        ("stale", 0),
        ("stale.lock", 0),
        ("suspects", 0),
        ("lanes_all", LIMIT),
        ("lanes_open", LIMIT),
        ("lanes_fetch", 4),
        ("lanes_settle_delivered", 4),
        ("routes", 0),
    ] {
        let read = rows_read(&planned, name).await;
        assert!(read >= i64::from(finds), "{name} went through {read}");
        assert!(read <= most, "{name} went through {read}");
    }
}
