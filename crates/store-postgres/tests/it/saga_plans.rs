//! The plans of what moves sagas: rows by their index, and no list compared with another one, whatever the planner
//! knows of the tables and takes the lists for.

use pillarbox_conformance::StoreHarness;

use crate::harness::{Direct, connect};
use crate::plans::{STEER, Statistics, Subject, check_indexes, fill, plan, subject};

/// Steps of one settle.
const BATCH: usize = 500;
/// The same in the transaction of a callback, which is not steered: there the planner reads all sagas as soon as it is to
/// change a large part of them, and is right.
const BATCH_CALLED: usize = 50;
const KEY: &str = "01900000-0000-7000-8000-000000000001";

fn list(value: &str, length: usize) -> String {
    format!("'{{{}}}'", vec![value; length].join(","))
}

/// Carries a batch out.
fn write(batch: usize) -> Subject {
    let list = |value| list(value, batch);
    let (number, text, none) = (list("1"), list("x"), list("null"));
    let key = list(KEY);
    let sagas = format!("{text}, {number}, {text}, {number}, {none}, {text}, {}", list("f"));
    let entries = format!("{number}, {number}, {number}, {text}, {text}, {none}");
    let audit = format!("{number}, {text}, {text}, {text}, {text}, {text}, {key}, {none}, {text}");
    let staged = format!(
        "{number}, {text}, {text}, {key}, {text}, {text}, {text}, {text}, {none}, {none}, {number}, {none}"
    );
    subject!(
        "saga_write",
        "timestamptz, text, boolean, \
         text[], bigint[], text[], bigint[], timestamptz[], text[], boolean[], \
         bigint[], bigint[], bigint[], text[], text[], text[], \
         bigint[], text[], text[], text[], text[], text[], uuid[], text[], text[], \
         bigint[], text[], text[], uuid[], text[], bytea[], text[], text[], text[], text[], bigint[], integer[]",
        format!("now(), 'worker', false, {sagas}, {entries}, {audit}, {staged}"),
        ["saga_pkey", "outbox_pkey"]
    )
}

/// Runs in the application's own transaction.
fn stage() -> Subject {
    subject!(
        "saga_stage",
        "text, text, text, text, text, text, text, bigint, bigint",
        "'s', 'erase', 'sagas', 'person', 'p-1', 'running', '{}', null, null",
        ["saga_name_subject_kind_subject_value_generation_key"]
    )
}

/// What a relay runs for every batch, or for every sweep.
fn steered() -> Vec<Subject> {
    vec![
        write(BATCH),
        subject!(
            "saga_of_held",
            "bigint[], bigint[], timestamptz",
            format!("{0}, {0}, null", list("1", BATCH)),
            ["outbox_pkey", "saga_pkey"]
        ),
        subject!("saga_open", "text, bigint", "'sagas', 1000", ["saga_open"]),
        subject!("saga_show", "text, timestamptz", "'s', null", ["saga_pkey"]),
        subject!("saga_entries", "uuid[], text", format!("'{{{KEY},{KEY}}}', 's'"), ["outbox_event"]),
        subject!(
            "saga_sweep",
            "timestamptz, bigint, text",
            "null, 100, null",
            ["outbox_ended", "saga_dead", "saga_due", "saga_pkey"]
        ),
        subject!(
            "saga_purge",
            "timestamptz, bigint, bigint, text",
            "null, 1000000, 500, 'operator'",
            ["saga_ended", "saga_pkey"]
        ),
    ]
}

/// 10,000 sagas of three steps each, some of them blocked, among 200,000 other entries.
async fn fill_sagas(harness: &Direct) {
    harness
        .execute("alter table {s}.pillarbox_saga set (autovacuum_enabled = off); analyze {s}.pillarbox_saga")
        .await;
    fill(harness).await;
    harness
        .execute(
            "insert into {s}.pillarbox_saga (id, name, route, subject_kind, subject_value, generation, status, body) \
             select md5(n::text)::uuid, 'erase', 'sagas', 'person', 'p-' || n, 1, 'running', repeat('x', 500) \
             from generate_series(1, 10000) as n; \
             insert into {s}.pillarbox_outbox (route, type, payload, group_id, status, attempts, fence, due_at) \
             select 'sagas', 'erase', '', md5((n % 10000 + 1)::text)::uuid, \
                 case when n <= 500 then 'in_flight' else 'pending' end, (n <= 500)::int, 1, \
                 case when n <= 500 then now() + interval '1 hour' end \
             from generate_series(1, 30000) as n; \
             with dead as ( \
                 update {s}.pillarbox_outbox set status = 'dead', settled_at = now() \
                 where group_id is not null and seq % 10 = 0 and status = 'pending' returning group_id \
             ) \
             update {s}.pillarbox_saga set status = 'blocked', dead = 1 where id in (select group_id from dead)",
        )
        .await;
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_saga").await, 10_000);
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 230_000);
}

async fn check(harness: &Direct, session: &str, subjects: &[Subject], statistics: Statistics) {
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(session)).execute(&mut connection).await.unwrap();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let set = format!("set plan_cache_mode = {mode}");
        sqlx::raw_sql(harness.sql(&set)).execute(&mut connection).await.unwrap();
        for subject in subjects {
            let plan = plan(&mut connection, harness, subject).await;
            let what = format!("{} with {statistics:?} statistics, {mode}:\n{plan}", subject.name);
            for table in ["outbox", "saga", "audit"] {
                assert!(!plan.contains(&format!("Seq Scan on pillarbox_{table}")), "reads a table: {what}");
            }
            // A row that is looked up is a condition of an index; this is every row of one list with all of another.
            assert!(!plan.contains("Join Filter"), "compares lists: {what}");
            assert!(!plan.contains("NOT (SubPlan"), "looks each saga up in a list: {what}");
            assert!(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "joins lists: {what}");
            check_indexes(subject, &plan, &what);
        }
    }
}

#[tokio::test]
async fn among_10_000_sagas_and_200_000_entries_every_step_goes_by_an_index() {
    let harness = Direct::start().await;
    fill_sagas(&harness).await;
    for statistics in [Statistics::Stale, Statistics::Fresh] {
        if statistics == Statistics::Fresh {
            harness.execute("analyze {s}.pillarbox_outbox; analyze {s}.pillarbox_saga").await;
        }
        check(&harness, &STEER.replace("set local", "set"), &steered(), statistics).await;
        check(&harness, "select 1", &[write(BATCH_CALLED), stage()], statistics).await;
    }
}
