//! Staging: in the application's own transaction, from Rust and from plain SQL.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Reaped, Schema, Stage, Store, Wake};
use pillarbox_core::{ErrorKind, Event, EventId, Ident, Retry, Staged, Status};
use pillarbox_store_postgres::{Mode, Options, Outbox, Param, PostgresStore};
use sqlx::Row;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::harness::{Direct, Pooled, connect, server, unique};
use crate::steps::{ROUTE, claim, events, ids, reap_request, stage};

#[tokio::test]
async fn a_rolled_back_savepoint_takes_its_events_along() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    let kept = outbox.stage(&mut tx, events(1).remove(0)).await.unwrap();
    harness.savepoint(&mut tx).await;
    assert!(!outbox.stage(&mut tx, events(1).remove(0)).await.unwrap().is_duplicate());
    harness.rollback_to_savepoint(&mut tx).await;
    outbox.commit(tx).await.unwrap();
    assert_eq!(ids(&claim(&harness.store(), 10).await), [kept.event_id()]);
}

#[tokio::test]
async fn a_hundred_thousand_events_are_one_statement_in_their_order() {
    let harness = Direct::start().await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(100_000)).await;
    let disorder = "select count(*) from (select convert_from(payload_bytes, 'UTF8')::int - row_number() over (order by seq) \
        as d from {s}.pillarbox_outbox) as x where d <> 0";
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 100_000);
    assert_eq!(harness.number(disorder).await, 0);
    let stamps = "select count(*) from (select hlc > lag(hlc) over (order by seq) as grows from {s}.pillarbox_outbox) \
        as x where not grows";
    assert_eq!(harness.number(stamps).await, 0);
}

#[tokio::test]
async fn more_bytes_than_a_message_holds_are_refused_before_anything_is_sent() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    let large = (0..300).map(|_| Event::new("order.placed", vec![b'x'; 1024 * 1024]));
    let error = outbox.stage_all(&mut tx, large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(!outbox.stage(&mut tx, events(1).remove(0)).await.unwrap().is_duplicate());
    outbox.commit(tx).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn one_event_and_many_events_round_trip_alike() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let full = |id: u128| {
        Event::new("order.placed", vec![0, 255, b'\\', b'"'])
            .id(EventId(Uuid::from_u128(id)))
            .key("o-1")
            .content_type("application/octet-stream")
            .header("shop", "north \"and\" süd")
            .tenant("t")
            .correlation_id("c")
            .causation_id("d")
            .execution_id("e")
            .occurred_at("2026-01-31T12:00:00.123456Z".parse().unwrap())
            .priority(-7)
            .group_id("g")
            .max_attempts(3)
    };
    let mut tx = harness.begin().await;
    // The same statement with and without values for what is optional: its prepared form must serve both.
    for event in [full(1), Event::new("plain", vec![]).id(EventId(Uuid::from_u128(2))), full(3)] {
        assert!(!outbox.stage(&mut tx, event).await.unwrap().is_duplicate());
    }
    assert!(!outbox.stage_all(&mut tx, [full(4)]).await.unwrap()[0].is_duplicate());
    outbox.commit(tx).await.unwrap();
    let mut entries = claim(&harness.store(), 10).await;
    entries.sort_by_key(|entry| entry.event_id);
    let [one, plain, again, many] = &entries[..] else { panic!("{} entries", entries.len()) };
    assert_eq!((one.payload.as_slice(), one.key.as_deref()), (&[0, 255, b'\\', b'"'][..], Some("o-1")));
    assert_eq!(one.headers["shop"], "north \"and\" süd");
    assert_eq!(one.occurred_at.unwrap().to_string(), "2026-01-31T12:00:00.123456Z");
    assert_eq!((one.priority, one.max_attempts, one.group_id.as_deref()), (-7, Some(3), Some("g")));
    assert_eq!((plain.payload.len(), plain.key.as_deref(), plain.max_attempts), (0, None, None));
    for other in [again, many] {
        let mut same = other.clone();
        (same.seq, same.event_id, same.hlc, same.fence) = (one.seq, one.event_id, one.hlc, one.fence);
        assert_eq!(&same, one);
    }
}

#[tokio::test]
async fn a_delay_counts_from_staging_also_in_a_long_transaction() {
    let harness = Direct::start().await;
    let mut tx = harness.begin().await;
    let began = "select (extract(epoch from now()) * 1000000)::bigint";
    let began: i64 = sqlx::query(began).fetch_one(&mut *tx).await.unwrap().get(0);
    sqlx::query("select pg_sleep(0.05)").execute(&mut *tx).await.unwrap();
    let delayed = events(1).remove(0).delay(Duration::from_secs(60));
    assert!(!harness.outbox(ROUTE).stage(&mut tx, delayed).await.unwrap().is_duplicate());
    tx.commit().await.unwrap();
    let due = harness
        .number("select (extract(epoch from due_at) * 1000000)::bigint from {s}.pillarbox_outbox")
        .await;
    assert!(due - began >= 60_050_000, "{} after the transaction began", due - began);
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn committing_through_the_outbox_wakes_the_relay_and_a_failed_commit_does_not() {
    struct Counter(AtomicU32);
    impl Wake for Counter {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let harness = Direct::start().await;
    let counter = Arc::new(Counter(AtomicU32::new(0)));
    let outbox = harness.outbox(ROUTE).wake(counter.clone());
    stage(&outbox, harness.store().pool(), events(1)).await;
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    let mut tx = harness.begin().await;
    assert!(!outbox.stage(&mut tx, events(1).remove(0)).await.unwrap().is_duplicate());
    let ended = sqlx::query("select pg_terminate_backend(pg_backend_pid())").execute(&mut *tx).await;
    assert!(ended.is_err());
    let error = outbox.commit(tx).await.unwrap_err();
    assert_ne!(error.retry(), Retry::Never, "{error}");
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_trace_of_the_current_span_travels_unless_the_event_has_its_own() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE).trace(|| Some("00-current-span-01".into()));
    let own = events(1).remove(0).header("traceparent", "00-own-span-01");
    stage(&outbox, harness.store().pool(), vec![own, events(1).remove(0)]).await;
    let traces: Vec<_> =
        claim(&harness.store(), 10).await.iter().map(|entry| entry.headers["traceparent"].clone()).collect();
    assert_eq!(traces, ["00-own-span-01", "00-current-span-01"]);
}

#[tokio::test]
async fn a_bad_route_is_refused_when_staging_and_leaves_the_transaction_usable() {
    let harness = Direct::start().await;
    let mut tx = harness.begin().await;
    let error = harness.outbox("").stage(&mut tx, events(1).remove(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let stage: &dyn Stage<_> = &harness.outbox(ROUTE);
    assert_eq!(stage.stage_all(&mut tx, events(2)).await.unwrap().len(), 2);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn one_event_in_a_call_of_many_is_staged_as_one_and_a_duplicate_is_told() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let event = || events(1).remove(0).id(EventId(Uuid::from_u128(7)));
    let mut tx = harness.begin().await;
    assert!(!outbox.stage_all(&mut tx, [event()]).await.unwrap()[0].is_duplicate());
    assert!(outbox.stage_all(&mut tx, [event()]).await.unwrap()[0].is_duplicate());
    assert!(!outbox.stage_all(&mut tx, events(1)).await.unwrap()[0].is_duplicate());
    tx.commit().await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 2);
}

#[tokio::test]
async fn a_status_or_route_that_nobody_would_look_for_is_refused_from_plain_sql_too() {
    let harness = Direct::start().await;
    let mut connection = connect().await;
    for (route, status) in [
        ("''", "'pending'"),
        ("E'a\\nb'", "'pending'"),
        ("E'a\\u0085b'", "'pending'"),
        ("'orders'", "'Pending'"),
        ("'orders'", "''"),
        ("repeat('x', 256)", "'pending'"),
    ] {
        let text = format!(
            "insert into {{s}}.pillarbox_outbox (route, type, payload, status) values ({route}, 't', '', {status})"
        );
        let refused = sqlx::raw_sql(harness.sql(&text)).execute(&mut connection).await.unwrap_err();
        let state = refused.as_database_error().unwrap().code().unwrap().into_owned();
        assert!(["23514", "22001", "22P02"].contains(&state.as_str()), "{route} {status}: {state}");
    }
}

#[tokio::test]
async fn what_plain_sql_calls_settled_and_due_is_settled() {
    let harness = Direct::start().await;
    let text = "insert into {s}.pillarbox_outbox (route, type, payload, status, due_at) \
                values ('orders', 'order.placed', '', 'delivered', now() - interval '1 hour')";
    harness.execute(text).await;
    assert!(claim(&harness.store(), 10).await.is_empty());
    assert_eq!(harness.store().reap(reap_request()).await.unwrap(), Reaped::default());
    let counts = harness.store().counts(None).await.unwrap();
    assert_eq!((counts[0].of(Status::Delivered), counts[0].undrained()), (1, 0));
}

#[tokio::test]
async fn a_staging_error_does_not_carry_the_servers_detail() {
    let harness = Direct::start().await;
    harness
        .execute("alter table {s}.pillarbox_outbox add constraint no_canary check (key <> 'canary')")
        .await;
    let mut tx = harness.begin().await;
    let event = Event::new("order.placed", b"canary".to_vec()).key("canary");
    let error = harness.outbox(ROUTE).stage(&mut tx, event).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some("23514")));
    let chain = format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(!chain.replace("no_canary", "").contains("canary"), "{chain}");
}

#[tokio::test]
async fn the_statement_for_other_drivers_stages_and_says_duplicate() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let event = events(1).remove(0).key("o-1").delay(Duration::from_secs(1)).id(EventId(Uuid::from_u128(7)));
    let statement = outbox.statement(event).unwrap();
    assert_eq!(statement.params.len(), 17);
    assert!(statement.params.contains(&Param::Text("o-1".into())) && statement.params.contains(&Param::Null));
    // Any driver: values as literals of the plainest kind.
    let mut sql = statement.sql;
    for (place, param) in statement.params.iter().enumerate().rev() {
        let literal = match param {
            Param::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Param::Integer(number) => number.to_string(),
            Param::Bytes(bytes) => {
                format!("'\\x{}'", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
            _ => "null".into(),
        };
        sql = sql.replace(&format!("${}::", place + 1), &format!("{literal}::"));
    }
    let mut connection = connect().await;
    for rows in [1, 0] {
        let done = sqlx::raw_sql(harness.sql(&sql)).execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), rows);
    }
}

#[tokio::test]
async fn serializable_writers_lose_and_invent_nothing() {
    let harness = Direct::start().await;
    harness
        .execute(
            "create table {s}.account (id int primary key, n int not null); \
        insert into {s}.account select n, 0 from generate_series(1, 4) as n",
        )
        .await;
    let mut writers = JoinSet::new();
    for writer in 0..4_i32 {
        let (pool, outbox) = (harness.store().pool().clone(), harness.outbox(ROUTE));
        let total = harness.sql("select sum(n) from {s}.account").0;
        let add = harness.sql("update {s}.account set n = n + 1 where id = $1").0;
        writers.spawn(async move {
            let (mut committed, mut refused) = (0, 0);
            while committed < 10 {
                let mut tx = pool.begin_with("begin isolation level serializable").await.unwrap();
                let work = async {
                    sqlx::query(sqlx::AssertSqlSafe(total.clone())).execute(&mut *tx).await?;
                    sqlx::query(sqlx::AssertSqlSafe(add.clone())).bind(writer + 1).execute(&mut *tx).await
                };
                let outcome = match work.await {
                    Ok(_) => match outbox.stage(&mut tx, events(1).remove(0)).await {
                        Ok(_) => outbox.commit(tx).await,
                        Err(error) => Err(error),
                    },
                    Err(error) => {
                        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("40001"));
                        refused += 1;
                        continue;
                    }
                };
                match outcome {
                    Ok(()) => committed += 1,
                    Err(error) => {
                        assert_eq!(
                            (error.kind(), error.retry()),
                            (ErrorKind::Contention, Retry::Later),
                            "{error}"
                        );
                        refused += 1;
                    }
                }
            }
            refused
        });
    }
    let refused: u32 = writers.join_all().await.into_iter().sum();
    assert!(refused > 0, "the writers never met");
    assert_eq!(harness.number("select sum(n)::bigint from {s}.account").await, 40);
    let mut delivered = 0;
    loop {
        let claimed = claim(&harness.store(), 7).await.len();
        delivered += claimed;
        if claimed == 0 {
            break;
        }
    }
    assert_eq!(delivered, 40);
}

#[tokio::test]
async fn psql_stages_with_three_columns_and_with_the_function() {
    let harness = Direct::start().await;
    let psql = |sql: String| {
        let run = Command::new("psql")
            .args(["-X", "-At", "-v", "ON_ERROR_STOP=1", "-c", &sql, &server()])
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    };
    psql(harness
        .sql("insert into {s}.pillarbox_outbox (route, type, payload) values ('orders', 'a', '{\"id\": 0}')")
        .0);
    let stage = harness
        .sql("select {s}.pillarbox_stage('orders', 'order.placed', '{\"id\":1}'::jsonb, key => 'o-1')")
        .0;
    let id: EventId = psql(stage).parse().unwrap();
    let again = format!(
        "select {}.pillarbox_stage('orders', 'order.placed', '2'::jsonb, event_id => '{id}', headers => '{{\"a\": \"b\"}}')",
        harness.schema
    );
    assert_eq!(psql(again), id.to_string(), "a duplicate gives the same id back");
    let later = harness.sql(
        "begin; select {s}.pillarbox_stage('orders', 'late', '[]'::jsonb, delay => '1 hour', priority => 5, \
         occurred_at => '2026-01-31T12:00:00Z', max_attempts => 2, headers => '{\"a\": \"b\"}', tenant => 't'); commit",
    );
    psql(later.0);
    let entries = claim(&harness.store(), 10).await;
    assert_eq!(entries.len(), 2, "the delayed one is not due");
    assert_eq!((entries[0].payload.as_slice(), entries[0].hlc), (&b"{\"id\": 0}"[..], None));
    assert_eq!((entries[1].event_id, entries[1].key.as_deref()), (id, Some("o-1")));
    assert_eq!(entries[1].payload, b"{\"id\": 1}");
    let late = harness
        .rows("select priority, max_attempts, tenant from {s}.pillarbox_outbox where type = 'late'")
        .await;
    assert_eq!(
        (late[0].get::<i16, _>(0), late[0].get::<i32, _>(1), late[0].get::<String, _>(2)),
        (5, 2, "t".into())
    );
}

#[tokio::test]
async fn a_schema_and_a_prefix_that_are_words_of_sql_work() {
    let schema = Ident::new(&unique("select")).unwrap();
    let options = Options::default().schema(schema).create_schema(true).prefix(Ident::new("order").unwrap());
    let harness = Direct::with(options).await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(3)).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 3);
    assert_eq!(harness.number("select count(*) from {s}.order_outbox").await, 3);
}

#[tokio::test]
async fn nothing_depends_on_the_search_path() {
    let harness = Direct::start().await;
    let decoy = unique("decoy");
    harness
        .execute(&format!(
            "create schema {decoy}; create table {decoy}.pillarbox_outbox (like {{s}}.pillarbox_outbox including all); \
             create table {decoy}.pillarbox_audit (like {{s}}.pillarbox_audit including all)"
        ))
        .await;
    let url = format!("{}?options[search_path]={decoy}", server());
    let store = PostgresStore::connect(&url, harness.options.clone()).await.unwrap();
    stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
    let mut tx = store.pool().begin().await.unwrap();
    let call = harness.sql("select {s}.pillarbox_stage('orders', 't', '{}'::jsonb)");
    sqlx::query(call).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(claim(&store, 10).await.len(), 4);
    assert_eq!(harness.number(&format!("select count(*) from {decoy}.pillarbox_outbox")).await, 0);
    harness.execute(&format!("drop schema {decoy} cascade")).await;
}

#[tokio::test]
async fn an_outbox_through_a_pooler_leaves_no_prepared_statement_behind() {
    let harness = Pooled::start().await;
    assert_eq!(harness.options.mode, Some(Mode::Pooled));
    let outbox: Outbox = harness.outbox(ROUTE);
    // More transactions than PgBouncer has sessions, from clients that share them.
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let (outbox, store) = (outbox.clone(), harness.another().await);
        writers.spawn(async move {
            for _ in 0..20 {
                let mut tx = store.pool().begin().await.unwrap();
                let one = outbox.stage(&mut tx, events(1).remove(0)).await.unwrap();
                let many = outbox.stage_all(&mut tx, events(2)).await.unwrap();
                assert!(matches!(one, Staged::Fresh(_)) && many.len() == 2);
                outbox.commit(tx).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 480);
    assert!(matches!(
        harness.store().inspect().await.unwrap(),
        pillarbox_core::port::SchemaState::Ready { warnings } if warnings.is_empty()
    ));
}

#[tokio::test]
async fn a_delayed_event_with_a_key_is_refused_where_the_route_is_known_to_be_ordered() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE).ordered();
    let mut tx = harness.begin().await;
    let [event, late, keyed] = [0, 1, 2].map(|_| Event::new("order.placed", "1"));
    let later = Duration::from_secs(60);
    let error = outbox.stage(&mut tx, event.key("k").delay(later)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("ordered route"), "{error}");
    assert_eq!(outbox.stage_all(&mut tx, [late.delay(later), keyed.key("k")]).await.unwrap().len(), 2);
    outbox.commit(tx).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn who_serializes_a_key_waits_for_whoever_did_before_and_for_nobody_else() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let (mut first, mut second) = (harness.begin().await, harness.begin().await);
    outbox.serialize(&mut first, "k").await.unwrap();
    outbox.serialize(&mut second, "another").await.unwrap();
    harness.outbox("another").serialize(&mut second, "k").await.unwrap();
    let committed = AtomicU32::new(0);
    let one = async {
        // It waits by now, or is going to.
        let staged = outbox.stage(&mut first, Event::new("order.placed", "1").key("k")).await.unwrap();
        committed.store(1, Ordering::SeqCst);
        outbox.commit(first).await.unwrap();
        staged.event_id()
    };
    let other = async {
        // From plain SQL, by the same lock.
        let turn = harness.sql("select {s}.pillarbox_serialize($1, 'k')");
        sqlx::query(turn).bind(ROUTE).execute(&mut *second).await.unwrap();
        assert_eq!(committed.load(Ordering::SeqCst), 1, "it did not wait");
        let staged = outbox.stage(&mut second, Event::new("order.placed", "2").key("k")).await.unwrap();
        outbox.commit(second).await.unwrap();
        staged.event_id()
    };
    let (second, first) = tokio::join!(other, one);
    assert_eq!(ids(&claim(&harness.store(), 10).await), [first, second]);
    let mut tx = harness.begin().await;
    assert_eq!(outbox.serialize(&mut tx, "").await.unwrap_err().kind(), ErrorKind::Invalid);
}
