//! The query plans, beside many settled entries: what runs for every batch goes by its index, and sorts nothing.

use std::collections::BTreeMap;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter};
use pillarbox_core::{RouteName, Standing};
use pillarbox_store_mysql::{MySqlStore, statements};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
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

/// A step of a plan: the table, how its rows are found, the index, and what else is said.
#[derive(Debug)]
struct Step {
    table: String,
    kind: String,
    index: Option<String>,
    extra: String,
}

impl Step {
    /// Whether it reads all of a table or of an index.
    fn is_scan(&self) -> bool {
        ["ALL", "index"].contains(&&*self.kind)
    }

    /// Whether it puts rows aside or in order before it hands them on.
    fn sorts(&self) -> bool {
        self.extra.contains("filesort") || self.extra.contains("temporary")
    }
}

/// The values of a statement.
#[derive(Clone, Copy)]
struct Values {
    /// Every limit.
    limit: u32,
    /// A list that is read as a table.
    list: &'static str,
    /// Everything else, where the text does not say what it must be.
    other: &'static str,
}

impl Values {
    fn of(limit: u32) -> Self {
        Self { limit, list: "'[1, 2, 3]'", other: "1" }
    }

    /// The filter of an operator that narrows nothing but this list.
    fn meant(list: &'static str) -> Self {
        Self { limit: LIMIT, list, other: "null" }
    }
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
    fn text(&self, name: &str, values: Values) -> String {
        let sql = &self.statements[name];
        let (mut text, mut previous, mut listed) = (String::new(), "", 0);
        for (place, part) in sql.split('?').enumerate() {
            if place > 0 {
                let before = text.trim_end();
                let follows = previous == ", " && listed > 0;
                listed = if before.ends_with("in (") || follows { listed + 1 } else { 0 };
                let value = match before {
                    _ if listed > 0 => listed.to_string(),
                    _ if before.ends_with("json_table(") => values.list.to_owned(),
                    _ if before.ends_with("using") => "'[]'".to_owned(),
                    _ if before.ends_with("route =") => "'orders'".to_owned(),
                    _ if before.ends_with("route >") => "''".to_owned(),
                    _ if before.ends_with("seq <=") => i64::MAX.to_string(),
                    _ if before.ends_with("limit") => values.limit.to_string(),
                    _ => values.other.to_owned(),
                };
                text.push_str(&value);
            }
            previous = part;
            text.push_str(part);
        }
        text
    }

    /// What the server says it will do.
    async fn plan(&self, name: &str, values: Values) -> Vec<Step> {
        let explain = if self.is_mariadb { "explain " } else { "explain format=traditional " };
        let text = format!("{explain}{}", self.text(name, values));
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
                kind: column(row, "type").unwrap_or_default(),
                index: column(row, "key"),
                extra: column(row, "Extra").unwrap_or_default(),
            })
            .collect()
    }
}

async fn check(planned: &Planned, when: &str, name: &str, index: &str) {
    let plan = planned.plan(name, Values::of(1)).await;
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
    for name in ["lanes_open", "lanes_all", "lanes_waiting", "meant_lanes"] {
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

const OPEN: &str = "pillarbox_outbox_open";
const CAUSAL: &str = "pillarbox_outbox_causal";
const LANE: &str = "pillarbox_outbox_lane";

/// So many entries of one route that are settled, or that are pending: times a thousand.
fn queue(settled: u32, pending: u32) -> String {
    let rows = |thousands: u32, status: &str, attempts: &str, settled_at: &str| {
        format!(
            "insert into pillarbox_outbox (route, type, payload, `key`, hlc, status, attempts, settled_at) \
             with recursive n as (select 1 as i union all select i + 1 from n where i < 1000), \
             m as (select 1 as j union all select j + 1 from m where j < {thousands}) \
             select 'orders', 't', '0', concat('k-', i), i * 1000 + j, '{status}', {attempts}, {settled_at} from n, m"
        )
    };
    format!("{}; {}", rows(settled, "delivered", "1", "j"), rows(pending, "pending", "0", "null"))
}

/// What runs for every batch: its index, and how many rows there are to be found by it. The lists of these statements have
/// four rows.
const BATCHES: [(&str, &str, u32); 17] = [
    ("claim_staged", OPEN, LIMIT),
    ("claim_back", OPEN, 0),
    ("claim_due", OPEN, 0),
    ("claim_causal", CAUSAL, LIMIT),
    ("claim_back_causal", CAUSAL, 0),
    ("claim_take", "PRIMARY", 4),
    ("settle_delivered", "PRIMARY", 0),
    ("stale", OPEN, 0),
    ("stale.lock", OPEN, 0),
    ("suspects", OPEN, 0),
    ("lanes_all", LANE, LIMIT),
    ("lanes_open", LANE, LIMIT),
    ("lanes_waiting", LANE, LIMIT),
    ("lanes_fetch", "PRIMARY", 4),
    ("lanes_settle_delivered", "PRIMARY", 4),
    ("lanes_settle_deleted", "PRIMARY", 4),
    ("routes", OPEN, 0),
];

/// How many rows and index entries the server went through for a statement, which is rolled back.
async fn rows_read(planned: &Planned, name: &str, values: Values) -> i64 {
    let mut connection: MySqlConnection = planned.harness.database.connect().await;
    let text = planned.text(name, values);
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

/// Every statement of a batch goes by its index, scans and sorts nothing, and reads little more than the batch.
async fn check_batches(planned: &Planned, when: &str) {
    // Each of the rows is found by the index, and again in the table.
    let most = 3 * i64::from(LIMIT);
    for (name, index, finds) in BATCHES {
        check(planned, when, name, index).await;
        let plan = planned.plan(name, Values::of(LIMIT)).await;
        let bad = |step: &&Step| step.table == "pillarbox_outbox" && (step.is_scan() || step.sorts());
        assert!(plan.iter().find(bad).is_none(), "{when}: {name}: {plan:?}");
        let read = rows_read(planned, name, Values::of(LIMIT)).await;
        assert!(read >= i64::from(finds), "{when}: {name} went through {read}");
        assert!(read <= most, "{when}: {name} went through {read}");
    }
}

async fn queued(settled: u32) -> Planned {
    let planned = Planned::empty().await;
    planned.harness.database.execute(&queue(settled, 200)).await;
    let pending = "select count(*) from pillarbox_outbox where status = 'pending'";
    assert_eq!(planned.harness.database.number(pending).await, PENDING);
    planned
}

#[tokio::test]
async fn among_200_000_pending_entries_a_batch_reads_little_more_than_itself() {
    let planned = queued(50).await;
    check_batches(&planned, "with the statistics of the moment").await;
    check_pages(&planned).await;
    check_waiting(&planned).await;
}

#[tokio::test]
async fn beside_1_000_000_settled_entries_a_batch_reads_little_more_than_itself() {
    let planned = queued(1000).await;
    check_batches(&planned, "with the statistics of the moment").await;
    planned.harness.database.execute("analyze table pillarbox_outbox").await;
    check_batches(&planned, "with fresh statistics").await;
    check_pages(&planned).await;
    check_waiting(&planned).await;
}

/// The ways to find what an operator means: a list of what is looked for, and the index that has it.
const WAYS: [(&str, &str, &str); 6] = [
    ("ids", "'[\"01900000-0000-7000-8000-000000000001\"]'", "pillarbox_outbox_event"),
    ("front", "'[1, 2, 3]'", "PRIMARY"),
    ("live", "'[1, 2, 3]'", OPEN),
    ("blocked", "'[1, 2]'", LANE),
    ("ended", "'[5, 6]'", OPEN),
    ("any", "'[1, 2, 3, 4, 5, 6]'", "PRIMARY"),
];

/// Pages and counts of an operator go by the index of what is asked for. Only a count of everything reads everything.
async fn check_pages(planned: &Planned) {
    let most = 6 * i64::from(LIMIT);
    for statement in ["list", "selected", "count_by"] {
        for (way, list, index) in WAYS {
            if (statement, way) == ("count_by", "any") {
                continue;
            }
            let (name, values) = (format!("{statement}.{way}"), Values::meant(list));
            let plan = planned.plan(&name, values).await;
            let entries: Vec<&Step> = plan.iter().filter(|step| step.table == "entry").collect();
            assert!(!entries.is_empty(), "{name} does not look at the outbox: {plan:?}");
            for step in entries {
                assert_eq!(step.index.as_deref(), Some(index), "{name}: {plan:?}");
            }
            // The heads of blocked keys, and the ids of those that a page shows.
            for step in plan.iter().filter(|step| step.table == "dead") {
                let index = step.index.as_deref().unwrap_or_default();
                assert!([OPEN, "PRIMARY"].contains(&index), "{name}: {plan:?}");
            }
            let read = rows_read(planned, &name, values).await;
            // What is open is not in the order of staging in its index, which is read once: for counts, and where few match.
            let most = if way == "live" { PENDING + most } else { most };
            assert!(read <= most, "{name} went through {read}");
        }
    }
}

/// Some entries of another route, of a key that retries, and of a key that is blocked by its first entry.
const OTHERS: &str = "insert into pillarbox_outbox (route, type, payload) \
        with recursive n as (select 1 as i union all select i + 1 from n where i < 500) select 'mails', 't', '0' from n; \
    update pillarbox_outbox set status = 'retrying', attempts = 1, due_at = if(seq % 2, 1, null) \
        where status = 'pending' and `key` = 'k-500'; \
    update pillarbox_outbox set status = 'dead', attempts = 1, settled_at = 1 \
        where status = 'pending' and `key` = 'k-7' order by seq limit 1; \
    insert into pillarbox_route_state (route, on_dead) values ('orders', 'block')";

/// How many entries a page has.
const PAGE: u32 = 50;

/// A store with one connection, whose counters tell what a page has read.
struct Counted {
    store: MySqlStore,
    pool: MySqlPool,
}

impl Counted {
    async fn new(planned: &Planned) -> Self {
        let one = MySqlPoolOptions::new().max_connections(1);
        let pool = one.connect(&planned.harness.database.url()).await.unwrap();
        let store = MySqlStore::new(pool.clone(), planned.harness.options.clone()).unwrap();
        Self { store, pool }
    }

    /// The entries of a page, and how many rows and index entries the server went through for it.
    async fn page(&self, filter: Filter) -> (Vec<i64>, i64) {
        sqlx::raw_sql("flush status").execute(&self.pool).await.unwrap();
        let page = self.store.list(filter.limit(PAGE)).await.unwrap();
        let read = sqlx::raw_sql("show session status like 'Handler_read%'").fetch_all(&self.pool).await;
        let number = |row: &sqlx::mysql::MySqlRow| row.get_unchecked::<String, _>(1).parse::<i64>().unwrap();
        let read = read.unwrap().iter().map(number).sum();
        (page.iter().map(|entry| entry.seq).collect(), read)
    }
}

/// Pages of what waits are in the order of staging, and read little, whatever waits behind them.
async fn check_waiting(planned: &Planned) {
    let (database, counted) = (&planned.harness.database, Counted::new(planned).await);
    let page = 60 * i64::from(PAGE);
    for others in [false, true] {
        if others {
            database.execute(OTHERS).await;
        }
        let blocked = if others { "`key` <=> 'k-7'" } else { "false" };
        let middle = database.number("select max(seq) - 100000 from pillarbox_outbox").await;
        let all = |status: &str| Filter::default().status(status.parse::<Standing>().unwrap());
        let of = |route| all("pending").route(RouteName::new(route).unwrap());
        for (filter, matches, most) in [
            (all("pending"), "status = 'pending'".to_owned(), page),
            (of("orders"), "status = 'pending' and route = 'orders'".to_owned(), page),
            (of("mails"), "status = 'pending' and route = 'mails'".to_owned(), page),
            (all("pending").after(middle), format!("status = 'pending' and seq > {middle}"), page),
            // Only its lane is looked at, further than at first: other keys are in it, too.
            (all("pending").key("k-8"), "status = 'pending' and `key` = 'k-8'".to_owned(), 4 * page),
            (all("retrying"), "status = 'retrying'".to_owned(), 2 * page),
        ] {
            let matching = format!("{matches} and not {blocked}");
            check_page(planned, &counted, filter, &matching, most).await;
        }
        // Which entries are blocked is in no index: the lanes of dead entries are read to their ends.
        let matching = format!("status = 'pending' and {blocked}");
        check_page(planned, &counted, all("blocked"), &matching, PENDING / 4).await;
    }
    counted.pool.close().await;
}

/// The page has the first entries for which a condition holds, and this is the most that it reads.
async fn check_page(planned: &Planned, counted: &Counted, filter: Filter, matching: &str, most: i64) {
    let rows = format!("select seq from pillarbox_outbox where {matching} order by seq limit {PAGE}");
    let rows = planned.harness.database.rows(&rows).await;
    let first: Vec<i64> = rows.iter().map(|row| row.get_unchecked(0)).collect();
    let said = format!("{filter:?}");
    let (seqs, read) = counted.page(filter).await;
    assert_eq!(seqs, first, "{said}");
    assert!(read <= most, "{said} went through {read}");
}
