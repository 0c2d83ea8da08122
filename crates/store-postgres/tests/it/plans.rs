//! The plans of what a relay runs: by index, without a sort, whatever the planner knows of the table.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::Status;
use pillarbox_core::port::{Admin as _, Filter};
use pillarbox_store_postgres::statements;
use sqlx::{PgConnection, Row};

use crate::harness::{Direct, connect};

const ENTRIES: u32 = 200_000;
/// What the store sets for a relay's calls.
pub(crate) const STEER: &str = include_str!("../../src/sql/steer.sql");

const SESSION: &str = "01900000-0000-7000-8000-000000000001";

/// What the planner knows of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistics {
    /// Gathered with all entries in it.
    Fresh,
    /// Gathered when it was empty.
    Stale,
}

/// A statement, the types of its parameters, and values for them.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) types: &'static str,
    pub(crate) values: String,
    /// Indexes that the plan must go through, and of the outbox's no others.
    pub(crate) by: &'static [&'static str],
}

macro_rules! subject {
    ($name:literal, $types:expr, $values:expr, $by:expr) => {
        $crate::plans::Subject { name: $name, types: $types, values: $values.into(), by: &$by }
    };
}

pub(crate) use subject;

fn subjects() -> Vec<Subject> {
    let batch = format!("'{{{}}}'", (1000..1500).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let lanes = format!("'{{{}}}'", vec!["10"; 64].join(","));
    let places = format!("'{{{}}}'", (1..500).map(|n| format!("\"(1,{n})\"")).collect::<Vec<_>>().join(","));
    let texts = |text: &str| format!("'{{{}}}'", vec![text; 500].join(","));
    let claim = "'orders', null, 5, 250, 500, 'worker', 30000000, null, -9223372036854775808";
    vec![
        subject!(
            "claim_staged",
            "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, bigint, boolean",
            format!("{claim}, -9223372036854775808, false"),
            ["outbox_open", "outbox_pkey"]
        ),
        subject!(
            "claim_causal",
            "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, boolean",
            format!("{claim}, false"),
            ["outbox_causal", "outbox_open", "outbox_pkey"]
        ),
        subject!(
            "claim_suspects",
            "text, timestamptz, bigint, bigint, bigint, text, bigint, bigint, bigint[], boolean",
            "'orders', null, 5, 100, 500, 'worker', 1, 0, array[100, 10, 1], false",
            ["outbox_open", "outbox_pkey"]
        ),
        subject!(
            "extend",
            "bigint[], bigint[], timestamptz, bigint",
            format!("{batch}, {batch}, null, 1"),
            ["outbox_pkey"]
        ),
        subject!(
            "settle_delivered",
            "bigint[], bigint[], timestamptz",
            format!("{batch}, {batch}, null"),
            ["outbox_pkey"]
        ),
        subject!("settle_deleted", "bigint[], bigint[]", format!("{batch}, {batch}"), ["outbox_pkey"]),
        subject!(
            "settle_mixed",
            "bigint[], bigint[], text[], bigint[], text[], timestamptz",
            format!("{batch}, {batch}, {}, {batch}, {}, null", texts("retry"), texts("failed/x")),
            ["outbox_pkey"]
        ),
        subject!(
            "settle_dead",
            "bigint[], bigint[], text[], timestamptz, text",
            format!("{batch}, {batch}, {}, null, 'worker'", texts("failed/x")),
            ["outbox_pkey"]
        ),
        subject!(
            "reap",
            "text, timestamptz, bigint, bigint, text, text, boolean, boolean",
            "'orders', null, 5, 500, 'failed/x', 'reaper', true, false",
            ["outbox_open", "outbox_pkey"]
        ),
        subject!(
            "stale",
            "text, timestamptz, bigint, bigint, boolean",
            "'orders', null, 5, 500, false",
            ["outbox_open"]
        ),
        subject!("recent_ended", "timestamptz, bigint", "null, 10000000", ["outbox_ended"]),
        subject!("recent_accepted", "timestamptz, bigint", "null, 10000000", ["inbox_age"]),
        subject!(
            "waits",
            "timestamptz, bigint, text, bigint, bigint",
            "null, 10000000, 'orders', 1000, 20000",
            ["outbox_ended"]
        ),
        subject!("lanes_backlog", "text, bigint", "'orders', 1000", ["outbox_lane", "lane_pkey"]),
        subject!(
            "lanes_read",
            "text, uuid, bigint[], bigint[], bigint[], boolean",
            format!("'orders', '{SESSION}', {lanes}, {lanes}, {lanes}, true"),
            ["outbox_lane", "lane_pkey", "lane_session_pkey"]
        ),
        subject!(
            "lanes_recent",
            "text, uuid, bigint[], bigint[], bigint[], boolean, bigint, bigint",
            format!("'orders', '{SESSION}', {lanes}, {lanes}, {lanes}, true, 10, 266"),
            ["outbox_pkey", "lane_pkey", "lane_session_pkey"]
        ),
        subject!(
            "lanes_note",
            "text, uuid, bigint",
            format!("'orders', '{SESSION}', 1"),
            ["lane_session_pkey", "lane_handed_pkey"]
        ),
        subject!(
            "lanes_fetch",
            "text, uuid, bigint[]",
            format!("'orders', '{SESSION}', {batch}"),
            ["outbox_pkey"]
        ),
        subject!(
            "lanes_heads",
            "text, smallint[]",
            format!("'orders', {lanes}"),
            ["outbox_ended", "outbox_open"]
        ),
        subject!(
            "lanes_settle_deleted",
            "text, uuid, bigint[], smallint[], bigint[], text",
            format!("'orders', '{SESSION}', {batch}, {lanes}, {lanes}, {places}"),
            ["lane_pkey", "lane_session_pkey"]
        ),
        subject!(
            "lanes_settle_delivered",
            "text, uuid, bigint[], smallint[], bigint[], text, integer, timestamptz",
            format!("'orders', '{SESSION}', {batch}, {lanes}, {lanes}, {places}, 1, null"),
            ["lane_pkey", "lane_session_pkey"]
        ),
        subject!(
            "lanes_settle_mixed",
            "text, uuid, bigint[], bigint[], integer[], text[], bigint[], text[], timestamptz, boolean, text",
            format!(
                "'orders', '{SESSION}', {batch}, {batch}, {batch}, {}, {batch}, {}, null, false, 'worker'",
                texts("retry"),
                texts("failed/x")
            ),
            ["outbox_pkey"]
        ),
        subject!(
            "purge",
            "timestamptz, bigint, bigint, text",
            "null, 1000000, 500, 'operator'",
            ["outbox_ended", "outbox_pkey"]
        ),
    ]
}

pub(crate) async fn fill(harness: &Direct) {
    harness
        .execute(
            "alter table {s}.pillarbox_outbox set (autovacuum_enabled = off); \
             analyze {s}.pillarbox_outbox; \
             insert into {s}.pillarbox_outbox (route, type, payload, hlc) \
             select 'orders', 'order.placed', repeat('x', 100), n \
             from generate_series(1, 200000) as n",
        )
        .await;
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, i64::from(ENTRIES));
}

pub(crate) async fn plan(connection: &mut PgConnection, harness: &Direct, subject: &Subject) -> String {
    let statements = statements(&harness.options);
    let text = &statements.iter().find(|(name, _)| name == subject.name).unwrap().1;
    let name = subject.name.replace('.', "_");
    let prepare = format!("prepare {name} ({}) as {text}", subject.types);
    sqlx::raw_sql(harness.sql(&prepare)).execute(&mut *connection).await.unwrap();
    let explain = format!("explain (costs off) execute {name} ({})", subject.values);
    let rows = sqlx::raw_sql(harness.sql(&explain)).fetch_all(&mut *connection).await.unwrap();
    let deallocate = format!("deallocate {name}");
    sqlx::raw_sql(harness.sql(&deallocate)).execute(connection).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

async fn check(harness: &Direct, statistics: Statistics) {
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut connection).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let set = format!("set plan_cache_mode = {mode}");
        sqlx::raw_sql(harness.sql(&set)).execute(&mut connection).await.unwrap();
        for subject in subjects() {
            let plan = plan(&mut connection, harness, &subject).await;
            let what = format!("{} with {statistics:?} statistics, {mode}:\n{plan}", subject.name);
            assert!(!plan.contains("Seq Scan on pillarbox_outbox"), "reads the table: {what}");
            assert!(!plan.contains("Sort"), "sorts: {what}");
            check_indexes(&subject, &plan, &what);
        }
    }
}

/// A plan goes through the indexes of its subject, and through no other of the outbox: where there is next to nothing, all
/// of one may look as good as a part of another, and the plan is kept.
pub(crate) fn check_indexes(subject: &Subject, plan: &str, what: &str) {
    for index in subject.by {
        assert!(plan.contains(&format!("pillarbox_{index}")), "does not use {index}: {what}");
    }
    let used = plan.split(" using pillarbox_").skip(1).filter_map(|rest| rest.split_whitespace().next());
    for index in used.filter(|index| index.starts_with("outbox_")) {
        assert!(subject.by.contains(&index), "goes through {index}: {what}");
    }
}

/// Both kinds of statistics, custom and generic plans.
pub(crate) async fn check_both(harness: &Direct) {
    check(harness, Statistics::Stale).await;
    harness.execute("analyze {s}.pillarbox_outbox").await;
    check(harness, Statistics::Fresh).await;
}

#[tokio::test]
async fn with_200_000_pending_entries_every_call_goes_by_an_index_and_sorts_nothing() {
    let harness = Direct::start().await;
    fill(&harness).await;
    check_both(&harness).await;
}

#[tokio::test]
async fn with_100_000_due_retries_every_call_goes_by_an_index_and_sorts_nothing() {
    let harness = Direct::start().await;
    fill(&harness).await;
    harness
        .execute(
            "update {s}.pillarbox_outbox set status = 'retrying', attempts = 1, \
             due_at = now() - interval '1 hour' + seq * interval '1 ms' where seq % 2 = 0",
        )
        .await;
    check_both(&harness).await;
}

#[tokio::test]
async fn among_200_000_delivered_entries_every_call_goes_by_an_index_and_sorts_nothing() {
    let harness = Direct::start().await;
    fill(&harness).await;
    harness
        .execute(
            "update {s}.pillarbox_outbox set status = 'delivered', settled_at = now() - interval '1 day' \
             where seq > 1000",
        )
        .await;
    check_both(&harness).await;
}

/// Where hardly anything is open, any index of what is open looks as good as any other; the plan is kept when it fills again.
#[tokio::test]
async fn among_entries_that_are_all_delivered_every_call_goes_by_its_own_index() {
    let harness = Direct::start().await;
    all_delivered(&harness).await;
    check_both(&harness).await;
}

async fn all_delivered(harness: &Direct) {
    harness
        .execute(
            "alter table {s}.pillarbox_outbox set (autovacuum_enabled = off); \
             insert into {s}.pillarbox_outbox (route, type, payload, status, settled_at) \
             select 'orders', 'order.placed', repeat('x', 100), 'delivered', now() \
             from generate_series(1, 20000)",
        )
        .await;
}

/// It sorts, by key, what may have been in flight.
#[tokio::test]
async fn what_is_counted_for_lost_sessions_is_read_by_their_lanes() {
    let harness = Direct::start().await;
    all_delivered(&harness).await;
    let bury = subject!(
        "lanes_bury",
        "text, uuid[], timestamptz, bigint, text, text, boolean",
        format!("'orders', '{{{SESSION}}}', null, 5, 'failed/x', 'worker', false"),
        ["outbox_lane", "outbox_ended", "outbox_pkey"]
    );
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut connection).await.unwrap();
    for statistics in [Statistics::Stale, Statistics::Fresh] {
        if statistics == Statistics::Fresh {
            harness.execute("analyze {s}.pillarbox_outbox").await;
        }
        let plan = plan(&mut connection, &harness, &bury).await;
        check_indexes(&bury, &plan, &format!("lanes_bury with {statistics:?} statistics:\n{plan}"));
    }
}

/// Reading the whole of a small table looks cheap, above all if hardly anything of it is expected to be in flight.
#[tokio::test]
async fn of_a_few_thousand_entries_none_is_compared_with_each_of_a_batch() {
    let harness = Direct::start().await;
    harness
        .execute(
            "alter table {s}.pillarbox_outbox set (autovacuum_enabled = off); \
             insert into {s}.pillarbox_outbox (route, type, payload) \
             select 'orders', 'order.placed', repeat('x', 100) from generate_series(1, 5000); \
             analyze {s}.pillarbox_outbox",
        )
        .await;
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut connection).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let set = format!("set plan_cache_mode = {mode}");
        sqlx::raw_sql(harness.sql(&set)).execute(&mut connection).await.unwrap();
        let of_batches = |subject: &Subject| subject.name.contains("settle") || subject.name == "extend";
        for subject in subjects().iter().filter(|subject| of_batches(subject)) {
            let plan = plan(&mut connection, &harness, subject).await;
            assert!(!plan.contains("Join Filter"), "{}, {mode}:\n{plan}", subject.name);
        }
    }
}

#[tokio::test]
async fn a_claim_on_a_plain_pool_goes_by_an_index_too() {
    let harness = Direct::start().await;
    fill(&harness).await;
    let mut connection = connect().await;
    for statistics in [Statistics::Stale, Statistics::Fresh] {
        if statistics == Statistics::Fresh {
            harness.execute("analyze {s}.pillarbox_outbox").await;
        }
        for subject in subjects().iter().filter(|subject| subject.name.starts_with("claim")) {
            let plan = plan(&mut connection, &harness, subject).await;
            assert!(!plan.contains("Seq Scan on") && !plan.contains("Sort"), "{statistics:?}:\n{plan}");
        }
    }
}

#[tokio::test]
async fn counting_goes_by_the_partial_indexes() {
    let harness = Direct::start().await;
    fill(&harness).await;
    let mut connection = connect().await;
    // As the store does before it counts.
    let settings = "set enable_seqscan = off; set enable_bitmapscan = off";
    sqlx::raw_sql(settings).execute(&mut connection).await.unwrap();
    let counts = subject!("counts", "timestamptz, bigint", "null, 100000", ["outbox_open", "outbox_ended"]);
    let stale = plan(&mut connection, &harness, &counts).await;
    harness.execute("analyze {s}.pillarbox_outbox").await;
    let fresh = plan(&mut connection, &harness, &counts).await;
    for plan in [stale, fresh] {
        assert!(!plan.contains("Seq Scan") && !plan.contains("Bitmap"), "{plan}");
        let newest = plan.matches("Index Only Scan Backward using pillarbox_outbox_ended").count();
        assert_eq!(newest, 2, "what is kept for days is read from its end, up to a limit: {plan}");
        for index in counts.by {
            assert!(plan.contains(&format!("Index Only Scan using pillarbox_{index}")), "{plan}");
        }
    }
}

#[tokio::test]
async fn a_page_of_the_audit_trail_goes_along_its_primary_key() {
    let harness = Direct::start().await;
    let audit = "insert into {s}.pillarbox_audit (kind, actor) select 'purged', 'web-17' from generate_series(1, 5000)";
    harness.execute(audit).await;
    harness.execute("analyze {s}.pillarbox_audit").await;
    let mut connection = connect().await;
    let page = subject!(
        "audit",
        "bigint, bigint, text[], text, timestamptz",
        "100, 4000, array['requeued', 'purged'], 'web-17', null",
        ["audit_pkey"]
    );
    let plan = plan(&mut connection, &harness, &page).await;
    assert!(plan.contains("Index Scan Backward using pillarbox_audit_pkey"), "{plan}");
    assert!(plan.contains("Index Cond: (seq <"), "it begins behind the page before: {plan}");
}

#[tokio::test]
async fn of_what_is_kept_for_days_only_the_newest_are_counted() {
    let harness = Direct::start().await;
    let deliver = "insert into {s}.pillarbox_outbox (route, type, payload, status, settled_at) \
        select case when n % 2 = 0 then 'orders' else 'mails' end, 't', '0', 'delivered', now() \
        from generate_series(1, 99999) as n";
    harness.execute(deliver).await;
    let counts = harness.store().counts(None).await.unwrap();
    let delivered: Vec<u64> = counts.iter().map(|counts| counts.of(Status::Delivered)).collect();
    assert_eq!((delivered, counts[0].at_least.len()), (vec![50_000, 49_999], 0));
    harness.execute(deliver).await;
    let counts = harness.store().counts(None).await.unwrap();
    assert_eq!(counts.iter().map(|counts| counts.of(Status::Delivered)).sum::<u64>(), 100_000);
    assert!(counts.iter().all(|counts| counts.at_least.contains(&Status::Delivered)), "{counts:?}");
}

#[tokio::test]
async fn with_200_000_pending_entries_what_is_blocked_is_counted_by_index() {
    let harness = Direct::start().await;
    fill(&harness).await;
    harness
        .execute(
            "insert into {s}.pillarbox_route_state (route, on_dead) values ('orders', 'block'); \
             update {s}.pillarbox_outbox set key = 'k-' || seq % 1000; \
             update {s}.pillarbox_outbox set status = 'dead', settled_at = now() where seq in (5, 17)",
        )
        .await;
    let mut connection = connect().await;
    let settings = "set enable_seqscan = off; set enable_bitmapscan = off";
    sqlx::raw_sql(settings).execute(&mut connection).await.unwrap();
    let blocked = subject!("counts_blocked", "bigint", "5", ["outbox_ended", "outbox_lane", "outbox_pkey"]);
    let stale = plan(&mut connection, &harness, &blocked).await;
    harness.execute("analyze {s}.pillarbox_outbox").await;
    let fresh = plan(&mut connection, &harness, &blocked).await;
    for plan in [stale, fresh] {
        assert!(!plan.contains("Seq Scan on pillarbox_outbox"), "{plan}");
        check_indexes(&blocked, &plan, "what is blocked");
    }
}

/// A page of a list by each way to find its entries. The way over the index of open entries, too, reads the table only by the
/// numbers of its rows.
#[tokio::test]
async fn with_200_000_pending_entries_a_page_of_each_standing_goes_by_an_index() {
    const TYPES: &str = "text, bigint, text, text, text, text, text, timestamptz, timestamptz, bigint, uuid[], text[], \
        bigint[], bigint[], timestamptz, bigint, boolean";
    let harness = Direct::start().await;
    fill(&harness).await;
    harness
        .execute(
            "insert into {s}.pillarbox_route_state (route, on_dead) values ('orders', 'block'); \
             update {s}.pillarbox_outbox set key = 'k-' || seq % 1000; \
             update {s}.pillarbox_outbox set status = 'dead', settled_at = now() where seq in (5, 17)",
        )
        .await;
    let values = |standing: &str, most: &str| {
        format!(
            "{standing}, {most}, null, null, null, null, null, null, null, null, null, '{{}}', '{{}}', '{{}}', null, 100, false"
        )
    };
    let subjects = [
        subject!("list.Staged", TYPES, values("null", "null"), ["outbox_pkey", "outbox_ended"]),
        subject!("list.Oldest", TYPES, values("null", "2000"), ["outbox_pkey", "outbox_ended"]),
        subject!("list.Ended", TYPES, values("null", "null"), ["outbox_ended", "outbox_pkey"]),
        subject!(
            "list.Open",
            TYPES,
            values("'pending'", "200"),
            ["outbox_open", "outbox_ended", "outbox_pkey"]
        ),
        subject!(
            "list.Retrying",
            TYPES,
            values("'retrying'", "null"),
            ["outbox_open", "outbox_ended", "outbox_pkey"]
        ),
        subject!(
            "list.Blocked",
            TYPES,
            values("'blocked'", "16"),
            ["outbox_lane", "outbox_ended", "outbox_open", "outbox_pkey"]
        ),
        subject!(
            "list.InFlight",
            TYPES,
            values("'in_flight'", "null"),
            ["outbox_lane", "outbox_ended", "outbox_open", "outbox_pkey"]
        ),
    ];
    let mut connection = connect().await;
    // As the store does before it looks for a page.
    let settings = "set enable_nestloop = off; set enable_seqscan = off; set jit = off; \
        set plan_cache_mode = force_custom_plan";
    sqlx::raw_sql(settings).execute(&mut connection).await.unwrap();
    for statistics in [Statistics::Stale, Statistics::Fresh] {
        if statistics == Statistics::Fresh {
            harness.execute("analyze {s}.pillarbox_outbox").await;
        }
        for subject in &subjects {
            let plan = plan(&mut connection, &harness, subject).await;
            let what = format!("{} with {statistics:?} statistics:\n{plan}", subject.name);
            assert!(!plan.contains("Seq Scan on pillarbox_outbox"), "reads the table: {what}");
            check_indexes(subject, &plan, &what);
        }
    }
}

/// The first look sees the oldest entries only, and there may be none of them among these.
#[tokio::test]
async fn delivered_entries_are_listed_wherever_they_are() {
    let harness = Direct::start().await;
    let stage = |status: &str, from: u32, to: u32| {
        format!(
            "insert into {{s}}.pillarbox_outbox (route, type, payload, status, settled_at) \
             select 'orders', n::text, '0', '{status}', case '{status}' when 'delivered' then now() end \
             from generate_series({from}, {to}) as n"
        )
    };
    for (status, from, to) in
        [("delivered", 1, 2), ("pending", 3, 100), ("delivered", 101, 103), ("pending", 104, 120)]
    {
        harness.execute(&stage(status, from, to)).await;
    }
    let store = harness.store();
    let list = async |limit: u32, after: Option<i64>| {
        let mut filter = Filter::default().status(Status::Delivered).limit(limit);
        filter.after = after;
        let found = store.list(filter).await.unwrap();
        (
            found.iter().map(|entry| entry.event_type.as_str().parse().unwrap()).collect::<Vec<u32>>(),
            found.last().unwrap().seq,
        )
    };
    let (first, last) = list(2, None).await;
    assert_eq!(first, [1, 2]);
    assert_eq!(list(2, Some(last)).await.0, [101, 102]);
    assert_eq!(list(4, None).await.0, [1, 2, 101, 102]);
    assert_eq!(list(100, None).await.0, [1, 2, 101, 102, 103]);
}

#[tokio::test]
async fn a_purge_of_the_inbox_goes_by_an_index_and_sorts_nothing() {
    let harness = Direct::start().await;
    harness
        .execute(
            "alter table {s}.pillarbox_inbox set (autovacuum_enabled = off); \
             analyze {s}.pillarbox_inbox; \
             insert into {s}.pillarbox_inbox (consumer, event_id, accepted_at) \
             select 'billing', gen_random_uuid(), now() - n * interval '1 minute' from generate_series(1, 50000) as n",
        )
        .await;
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut connection).await.unwrap();
    let purge = subject!(
        "inbox_purge",
        "timestamptz, bigint, bigint, text",
        "null, 1000000, 500, 'operator'",
        ["inbox_age", "inbox_pkey"]
    );
    let stale = plan(&mut connection, &harness, &purge).await;
    harness.execute("analyze {s}.pillarbox_inbox").await;
    let fresh = plan(&mut connection, &harness, &purge).await;
    for plan in [stale, fresh] {
        assert!(!plan.contains("Sort") && !plan.contains("Seq Scan on pillarbox_inbox "), "{plan}");
        assert!(purge.by.iter().all(|index| plan.contains(&format!("pillarbox_{index}"))), "{plan}");
    }
}
