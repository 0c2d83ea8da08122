//! What is gone through beside 1,000,000 settled entries: by a claim and by a read of lanes little more than the batch.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{AttendRequest, LANES, Lanes, SessionId};
use pillarbox_store_postgres::statements;
use serde_json::Value;
use sqlx::{PgConnection, Row};

use crate::harness::{Direct, connect};
use crate::plans::{STEER, Subject, check_both, subject};
use crate::steps::route;

const BATCH: u32 = 500;
const OF_A_LANE: u32 = 8;

/// 1,000,000 settled entries, and behind them 200,000 pending ones.
async fn fill(harness: &Direct) {
    harness
        .execute(
            "alter table {s}.pillarbox_outbox set (autovacuum_enabled = off); \
             analyze {s}.pillarbox_outbox; \
             insert into {s}.pillarbox_outbox (route, type, payload, key, hlc, status, attempts, settled_at) \
             select 'orders', 'order.placed', '0', 'k-' || n % 1000, n, 'delivered', 1, now() - interval '1 day' \
             from generate_series(1, 1000000) as n; \
             insert into {s}.pillarbox_outbox (route, type, payload, key, hlc) \
             select 'orders', 'order.placed', '0', 'k-' || n % 1000, n from generate_series(1, 200000) as n",
        )
        .await;
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 1_200_000);
}

/// The rows of the outbox that the nodes of a plan went through, those included that a condition left out.
fn rows_of(node: &Value) -> f64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let is_outbox = node["Relation Name"] == "pillarbox_outbox" && node["Node Type"] != "ModifyTable";
    let rows = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Index Recheck")
        + number("Rows Removed by Join Filter");
    let own = if is_outbox { rows * number("Actual Loops") } else { 0.0 };
    own + node["Plans"].as_array().into_iter().flatten().map(rows_of).sum::<f64>()
}

/// How many rows of the outbox a statement goes through. It is rolled back.
async fn examined(connection: &mut PgConnection, harness: &Direct, subject: &Subject) -> f64 {
    let statements = statements(&harness.options);
    let text = &statements.iter().find(|(name, _)| name == subject.name).unwrap().1;
    let name = subject.name;
    let begin = format!("begin; prepare {name} ({}) as {text}", subject.types);
    sqlx::raw_sql(harness.sql(&begin)).execute(&mut *connection).await.unwrap();
    let explain =
        format!("explain (analyze, costs off, timing off, format json) execute {name} ({})", subject.values);
    let row = sqlx::raw_sql(harness.sql(&explain)).fetch_one(&mut *connection).await.unwrap();
    let end = format!("rollback; deallocate {name}");
    sqlx::raw_sql(harness.sql(&end)).execute(connection).await.unwrap();
    let told: Value = serde_json::from_str(&row.get_unchecked::<String, _>(0)).unwrap();
    rows_of(&told[0]["Plan"])
}

/// Both kinds of claims, and a read of all lanes. It joins as a reader of the route, after which claims find nothing.
async fn check_examined(harness: &Direct, connection: &mut PgConnection) {
    let claim =
        |more: &str| format!("'orders', null, 5, 250, {BATCH}, 'worker', 30000000, null, {more} false");
    let nothing = "-9223372036854775808,";
    let staged = subject!(
        "claim_staged",
        "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, bigint, boolean",
        claim(&format!("{nothing} {nothing}")),
        []
    );
    let causal = subject!(
        "claim_causal",
        "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, boolean",
        claim(nothing),
        []
    );
    for claim in [staged, causal] {
        let rows = examined(connection, harness, &claim).await;
        let batch = f64::from(BATCH);
        assert!(rows >= batch && rows <= 4.0 * batch, "{} went through {rows}", claim.name);
    }
    let session = SessionId::of_random(7, 1);
    let attend = AttendRequest {
        route: route(),
        session,
        joins: true,
        owner: "worker".into(),
        lease: Duration::from_secs(600),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    assert_eq!(harness.store().attend(attend).await.unwrap().lanes.len(), usize::from(LANES));
    let id = harness.rows("select session::text from {s}.pillarbox_lane_session").await;
    let id: String = id[0].get(0);
    let of_lanes = |number: u32| format!("'{{{}}}'", vec![number.to_string(); LANES.into()].join(","));
    let read = subject!(
        "lanes_read",
        "text, uuid, bigint[], bigint[], bigint[], boolean",
        format!("'orders', '{id}', {0}, {0}, {1}, true", of_lanes(0), of_lanes(OF_A_LANE)),
        []
    );
    let (rows, batch) = (examined(connection, harness, &read).await, f64::from(u32::from(LANES) * OF_A_LANE));
    assert!(rows >= batch && rows <= 2.0 * batch, "a read went through {rows}");
}

#[tokio::test]
async fn beside_1_000_000_settled_entries_a_batch_reads_little_more_than_itself() {
    let harness = Direct::start().await;
    fill(&harness).await;
    check_both(&harness).await;
    let mut connection = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut connection).await.unwrap();
    check_examined(&harness, &mut connection).await;
}
