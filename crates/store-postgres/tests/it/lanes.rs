//! Lanes on PostgreSQL: what a crash of the server leaves, who counts as a writer, and what is written where.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    Admin, AttendRequest, Attendance, Effect, FetchRequest, Filter, Keep, LANES, LaneCursor, LaneRead,
    LaneSettleRequest, LaneSettlement, LaneWish, Lanes, ReadRequest, Selection, SelectionRequest, SessionId,
    Settled, Store, Verdict,
};
use pillarbox_core::{Entry, Held};
use pillarbox_engine::Relay;
use pillarbox_store_postgres::PostgresStore;
use pillarbox_testkit::{MemorySink, eventually};
use sqlx::{AssertSqlSafe, Row};

use crate::harness::{Direct, Pooled, PostgresHarness, connect};
use crate::steps::{ROUTE, claim, dead, events, reap_request, route, settle_request, stage, verdicts};

/// Long enough on any machine.
const WAIT: Duration = Duration::from_secs(60);

fn session(number: u64) -> SessionId {
    SessionId::of_random(7, number)
}

async fn attend(store: &PostgresStore, number: u64, joins: bool) -> Attendance {
    let request = AttendRequest {
        route: route(),
        session: session(number),
        joins,
        owner: format!("worker-{number}"),
        lease: Duration::from_secs(60),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    store.attend(request).await.unwrap()
}

/// Reads every lane from its beginning.
async fn read(store: &PostgresStore, number: u64) -> LaneRead {
    read_on(store, number, 100, &LaneCursor::default()).await
}

/// Reads so much of every lane on from a cursor.
async fn read_on(store: &PostgresStore, number: u64, limit: u32, cursor: &LaneCursor) -> LaneRead {
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit }).collect();
    let (session, cursor) = (session(number), cursor.clone());
    store.read(ReadRequest { route: route(), session, lanes, cursor }).await.unwrap()
}

/// How many transactions may be writing, by the statement of a read.
async fn writers(harness: &Direct) -> i64 {
    let writers = include_str!("../../src/sql/lanes_writers.sql").replace("$6", "true");
    harness
        .number(&format!(
            "select cardinality({})::bigint",
            writers.replace("{outbox}", "{s}.pillarbox_outbox")
        ))
        .await
}

fn revisions(read: &LaneRead) -> Vec<i64> {
    read.lanes.iter().map(|seen| seen.revision).collect()
}

async fn settle(
    store: &PostgresStore,
    held: &Attendance,
    verdicts: Vec<(&Entry, Verdict)>,
    keep: Keep,
) -> Settled {
    let settlements = verdicts.into_iter().map(|(entry, verdict)| {
        let lane = held.lanes.iter().find(|lane| Some(lane.lane) == entry.lane).unwrap();
        LaneSettlement {
            held: Held { seq: entry.seq, fence: lane.fence },
            lane: lane.lane,
            hint: entry.hint,
            attempts: entry.attempts + 1,
            verdict,
        }
    });
    let request = LaneSettleRequest {
        route: route(),
        session: session(1),
        owner: "worker-1".into(),
        settlements: settlements.collect(),
        keep,
        now: None,
    };
    Lanes::settle(store, request).await.unwrap()
}

#[tokio::test]
async fn what_a_crash_of_the_server_empties_makes_every_reader_begin_anew() {
    let harness = Direct::start().await;
    let store = harness.store();
    let persistence = "select count(*) from pg_class where relpersistence = 'u' and relnamespace = '{s}'::regnamespace \
                       and relname in ('pillarbox_lane_session', 'pillarbox_lane_handed')";
    assert_eq!(harness.number(persistence).await, 2, "a crash empties them");
    stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
    let before = attend(&store, 1, true).await;
    assert_eq!(read(&store, 1).await.entries.len(), 3);
    // What recovery does to such tables.
    harness.execute("truncate {s}.pillarbox_lane_session, {s}.pillarbox_lane_handed").await;
    assert!(read(&store, 1).await.lost);
    assert!(attend(&store, 1, false).await.lost);
    let after = attend(&store, 2, true).await;
    assert_eq!(after.lanes.len(), usize::from(LANES), "a lane whose session is gone is free");
    assert!(before.lanes.iter().zip(&after.lanes).all(|(before, after)| before.fence < after.fence));
    assert_eq!(read(&store, 2).await.entries.len(), 3);
}

/// A reader that expects next to nothing is answered by the last numbers that were drawn, if that is what there is.
#[tokio::test]
async fn who_expects_little_is_told_of_much_of_changes_and_of_nobody_elses_lanes() {
    let harness = Direct::start().await;
    let store = harness.store();
    let held = attend(&store, 1, true).await;
    let outbox = harness.outbox(ROUTE);
    stage(&outbox, store.pool(), events(3)).await;
    let first = read(&store, 1).await;
    assert!(read_on(&store, 1, 100, &first.cursor).await.entries.is_empty());

    stage(&outbox, store.pool(), events(20)).await;
    let few = read_on(&store, 1, 1, &first.cursor).await;
    let lanes: BTreeSet<_> = few.entries.iter().map(|entry| entry.lane).collect();
    assert_eq!(few.entries.len(), lanes.len(), "of each lane what was asked for");
    assert_eq!(read_on(&store, 1, 100, &first.cursor).await.entries.len(), 20);

    stage(&outbox, store.pool(), events(300)).await;
    let many = read_on(&store, 1, 100, &first.cursor).await;
    assert_eq!(many.entries.len(), 320, "more than it goes through");

    // An operator requeues one: the revision of its lane is another.
    let _ = settle(&store, &held, vec![(&first.entries[0], dead())], Keep::No).await;
    let selection = Selection::Ids(vec![first.entries[0].event_id]);
    let requeue = SelectionRequest {
        selection,
        limit: None,
        actor: "operator".into(),
        effect: Effect::Apply,
        now: None,
    };
    assert_eq!(store.requeue(requeue).await.unwrap().changed, 1);
    let changed = read_on(&store, 1, 100, &many.cursor).await;
    assert_ne!(revisions(&changed), revisions(&many));
    assert!(read_on(&store, 2, 100, &changed.cursor).await.lost, "no session of that name");
}

#[tokio::test]
async fn a_transaction_that_never_touched_the_outbox_is_no_writer() {
    let harness = Direct::start().await;
    let store = harness.store();
    let _ = attend(&store, 1, true).await;
    let mut idle = connect().await;
    let begin = "begin isolation level repeatable read; select txid_current(); \
                 select count(*) from {s}.pillarbox_outbox";
    sqlx::raw_sql(harness.sql(begin)).execute(&mut idle).await.unwrap();
    assert_eq!(writers(&harness).await, 0);
    let stage = "insert into {s}.pillarbox_outbox (route, type, payload) values ('orders', 't', '')";
    sqlx::raw_sql(harness.sql(stage)).execute(&mut idle).await.unwrap();
    assert_eq!(writers(&harness).await, 1);
    sqlx::raw_sql("rollback").execute(&mut idle).await.unwrap();
    assert_eq!(writers(&harness).await, 0);
}

#[tokio::test]
async fn a_settle_that_is_under_way_is_no_writer() {
    let harness = Direct::start().await;
    let store = harness.store();
    let held = attend(&store, 1, true).await;
    for keep in [Keep::No, Keep::UntilPurged] {
        stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
        let entries = read(&store, 1).await.entries;
        let mut other = connect().await;
        let lock = "begin; select from {s}.pillarbox_outbox for update";
        sqlx::raw_sql(harness.sql(lock)).execute(&mut other).await.unwrap();
        let verdicts = entries.iter().map(|entry| (entry, Verdict::Delivered)).collect();
        let settling = settle(&store, &held, verdicts, keep);
        let looking = async {
            let waiting = "select count(*) from pg_locks as l join pg_stat_activity as a using (pid) \
                           where not l.granted and a.query like '%{s}%'";
            eventually(WAIT, async || harness.number(waiting).await == 1).await;
            let writers = writers(&harness).await;
            sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
            writers
        };
        let (settled, writers) = tokio::join!(settling, looking);
        assert_eq!((settled.accepted, writers), (3, 0), "{keep:?}");
    }
}

#[tokio::test]
async fn a_session_leaves_one_note_of_how_far_it_has_read_and_takes_it_along() {
    let harness = Direct::start().await;
    let store = harness.store();
    let _ = attend(&store, 1, true).await;
    let notes = "select count(*) from {s}.pillarbox_lane_handed";
    for _ in 0..5 {
        assert!(!read(&store, 1).await.lost);
        stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
        assert_eq!(read(&store, 1).await.entries.len() % 3, 0);
        assert_eq!(harness.number(notes).await, 1);
    }
    let handed = harness.number("select handed from {s}.pillarbox_lane_handed").await;
    assert_eq!(handed, harness.number("select max(seq) from {s}.pillarbox_outbox").await);
    let leave = pillarbox_core::port::HandOverRequest { route: route(), session: session(1), lanes: None };
    store.hand_over(leave).await.unwrap();
    assert_eq!(harness.number(notes).await, 0);
}

#[tokio::test]
async fn reading_what_is_empty_writes_nothing() {
    let harness = Direct::start().await;
    let store = harness.store();
    let _ = attend(&store, 1, true).await;
    // Somebody else may not even lock the row of the session.
    let mut other = connect().await;
    let lock = "begin; select session from {s}.pillarbox_lane_session for update";
    sqlx::raw_sql(harness.sql(lock)).execute(&mut other).await.unwrap();
    assert!(!read(&store, 1).await.lost);
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
}

async fn only_the_dead_of_lanes_wait<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    let store = harness.store();
    harness
        .execute(
            "create table {s}.seen (what text, setting text); \
             create function {s}.watch() returns trigger language plpgsql as $$ begin \
             insert into {s}.seen values (tg_op, current_setting('synchronous_commit')); return null; end $$; \
             create trigger watch after update or delete on {s}.pillarbox_outbox \
             for each row execute function {s}.watch()",
        )
        .await;
    stage(&harness.outbox(ROUTE), store.pool(), events(4)).await;
    let held = attend(&store, 1, true).await;
    let entries = read(&store, 1).await.entries;
    let release = Verdict::release(None);
    for (batch, keep) in [
        (vec![(&entries[0], Verdict::Delivered)], Keep::No),
        (vec![(&entries[1], Verdict::Delivered)], Keep::UntilPurged),
        (vec![(&entries[2], Verdict::Delivered), (&entries[3], release)], Keep::UntilPurged),
    ] {
        let count = batch.len() as u64;
        assert_eq!(settle(&store, &held, batch, keep).await, Settled { accepted: count, fenced: vec![] });
    }
    let seen = async || {
        let rows = harness.rows("select what, setting from {s}.seen order by 1, 2").await;
        harness.execute("truncate {s}.seen").await;
        rows.iter()
            .map(|row| format!("{} {}", row.get::<&str, _>(0), row.get::<&str, _>(1)))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen().await, ["DELETE off", "UPDATE off", "UPDATE off"], "losing one means a redelivery");
    let settled = settle(&store, &held, vec![(&entries[3], dead())], Keep::No).await;
    assert_eq!(settled.accepted, 1);
    assert_eq!(seen().await, ["UPDATE on"], "a death is durable before anybody hears of it");
}

#[tokio::test]
async fn only_the_dead_of_lanes_wait_for_the_disk() {
    only_the_dead_of_lanes_wait(Direct::start().await).await;
}

#[tokio::test]
async fn only_the_dead_of_lanes_wait_for_the_disk_through_a_pooler() {
    only_the_dead_of_lanes_wait(Pooled::start().await).await;
}

#[tokio::test]
async fn what_comes_back_from_a_claim_by_rows_is_noticed_by_its_lane() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
    let claimed = claim(&store, 2).await;
    let _ = attend(&store, 1, true).await;
    let grown = async || revisions(&read(&store, 1).await).iter().sum::<i64>();
    assert_eq!(grown().await, 0);
    let released = verdicts(&claimed[..1], &Verdict::release(None));
    assert_eq!(Store::settle(&*store, settle_request(released)).await.unwrap().accepted, 1);
    assert_eq!(grown().await, 1);
    harness.execute("update {s}.pillarbox_outbox set due_at = now() where status = 'in_flight'").await;
    assert_eq!(store.reap(reap_request()).await.unwrap().released, 1);
    assert_eq!(grown().await, 2);
    assert_eq!(read(&store, 1).await.entries.len(), 2);
}

/// A prepared transaction goes on under another number, and nobody may take it for one that has ended.
#[tokio::test]
async fn what_a_prepared_transaction_staged_is_delivered_once_it_commits() {
    let harness = Direct::start().await;
    let sink = MemorySink::new();
    let relay = Relay::ordered(harness.store(), Arc::new(sink.clone())).route(ROUTE).build().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = relay.run(async { drop(stopped.await) });
    let work = async {
        let name = format!("prepared_{}", std::process::id());
        let mut open = connect().await;
        let stage = |key: &str| {
            let insert = "insert into {s}.pillarbox_outbox (route, type, key, payload)";
            harness.sql(&format!("{insert} values ('orders', 't', '{key}', '')"))
        };
        let delivered = async |count: usize| {
            eventually(WAIT, async || sink.received_ids().len() == count).await;
        };
        sqlx::raw_sql("begin").execute(&mut open).await.unwrap();
        sqlx::raw_sql(stage("open")).execute(&mut open).await.unwrap();
        let mut other = connect().await;
        let mut count = 0;
        let mut pass = async || {
            // One after the other, so that the reader passes what is open and asks who is writing.
            for _ in 0..10 {
                sqlx::raw_sql(stage("other")).execute(&mut other).await.unwrap();
                count += 1;
                delivered(count).await;
            }
        };
        pass().await;
        let prepare = AssertSqlSafe(format!("prepare transaction '{name}'"));
        sqlx::raw_sql(prepare).execute(&mut open).await.unwrap();
        pass().await;
        let commit = AssertSqlSafe(format!("commit prepared '{name}'"));
        sqlx::raw_sql(commit).execute(&mut open).await.unwrap();
        delivered(21).await;
        let _ = stop.send(());
    };
    let (tally, ()) = tokio::join!(run, work);
    assert_eq!(tally.unwrap().delivered, 21);
    assert_eq!(sink.received().last().unwrap().key.as_deref(), Some("open"));
}

/// What is as every entry begins is not sent: so each column is another than that, by itself.
#[tokio::test]
async fn whatever_of_an_entry_is_not_as_it_begins_is_read() {
    let harness = Direct::start().await;
    let store = harness.store();
    let others = [
        "content_type = 'text/plain'",
        r#"headers = '{"a": "b"}'"#,
        r#"headers = '{"": ""}'"#,
        "tenant = 't', correlation_id = 'c', causation_id = 'd', execution_id = 'e', group_id = 'g'",
        "occurred_at = '2001-02-03 04:05:06.789012+00'",
        "priority = 99",
        "hlc = 7",
        "status = 'retrying'",
        "attempts = 3",
        "max_attempts = 4",
        "due_at = '2001-02-03 04:05:06.789012+00'",
        "due_at = 'infinity'",
        "fence = 5",
        "owner = 'worker-9'",
        "owner = ''",
        "last_error = 'timeout: late'",
        "last_attempt_at = '2001-02-03 04:05:06.789012+00'",
        "status = 'retrying', attempts = 3, max_attempts = 4, fence = 5, owner = 'w', last_error = 'x', priority = -1",
    ];
    stage(&harness.outbox(ROUTE), store.pool(), events(u32::try_from(others.len() + 1).unwrap())).await;
    harness.execute("update {s}.pillarbox_outbox set hlc = null").await;
    for (at, other) in others.iter().enumerate() {
        harness.execute(&format!("update {{s}}.pillarbox_outbox set {other} where seq = {}", at + 1)).await;
    }
    let mut stored = store.list(Filter::default()).await.unwrap();
    stored.sort_unstable_by_key(|entry| entry.seq);
    let _ = attend(&store, 1, true).await;
    let mut entries = read(&store, 1).await.entries;
    entries.sort_unstable_by_key(|entry| entry.seq);
    assert_eq!((entries.len(), stored.len()), (others.len() + 1, others.len() + 1));
    for (read, mut stored) in entries.iter().zip(stored) {
        stored.lane = read.lane;
        assert_eq!(*read, stored);
    }
    let seqs = entries.iter().map(|entry| entry.seq).collect();
    let fetched = store.fetch(FetchRequest { route: route(), session: session(1), seqs }).await.unwrap();
    assert_eq!(fetched.entries, entries);
}

#[tokio::test]
async fn whatever_of_an_entry_cannot_be_read_is_named() {
    let harness = Direct::start().await;
    let store = harness.store();
    let spoilt = [
        ("type", "type = ''"),
        ("key", "key = ''"),
        ("content_type", "content_type = ''"),
        ("headers", "headers = '[]'"),
        ("headers", "headers = 'null'"),
        ("headers", "headers = '0'"),
        ("headers", r#"headers = '""'"#),
        ("headers", r#"headers = '["a"]'"#),
        ("headers", r#"headers = '{"a": 1}'"#),
        ("headers", r#"headers = '{"": {}}'"#),
        ("tenant", "tenant = ''"),
        ("correlation_id", "correlation_id = ''"),
        ("causation_id", "causation_id = ''"),
        ("execution_id", "execution_id = ''"),
        ("occurred_at", "occurred_at = 'infinity'"),
        ("group_id", "group_id = ''"),
        ("attempts", "attempts = -1"),
        ("max_attempts", "max_attempts = 0"),
        ("last_attempt_at", "last_attempt_at = '-infinity'"),
        ("created_at", "created_at = 'infinity'"),
    ];
    stage(&harness.outbox(ROUTE), store.pool(), events(u32::try_from(spoilt.len() + 1).unwrap())).await;
    for (at, (_, spoil)) in spoilt.iter().enumerate() {
        harness.execute(&format!("update {{s}}.pillarbox_outbox set {spoil} where seq = {}", at + 1)).await;
    }
    let _ = attend(&store, 1, true).await;
    let LaneRead { entries, mut undecodable, .. } = read(&store, 1).await;
    assert_eq!(entries.len(), 1, "the others are not disturbed");
    undecodable.sort_unstable_by_key(|row| row.row.held.seq);
    let named: Vec<_> = undecodable.iter().map(|row| row.row.failure.code()).collect();
    assert_eq!(named, spoilt.map(|(column, _)| column));
}
