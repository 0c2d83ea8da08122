//! One entry that kills its relay, among 2,000 that do no harm: a crash accuses, it does not convict. The children are
//! this very test binary, told by variables what to do.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::port::{Filter, Lanes, Report, Sink, SinkCapabilities};
use pillarbox::{Admin, Entry, Event, Ident, Outcome, Relay, RelayOptions, Status, Store};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{unique, variable};

const ROUTE: &str = "orders";
const GOOD: usize = 2_000;
const KILLER: &str = "killer";
const SIGABRT: i32 = 6;

/// Where a child works; unset in an ordinary run of the tests, which has nothing to do here.
const AT: &str = "PILLARBOX_TEST_KILLER_AT";
/// Set for the first child: it waits until all are in flight.
const ALL_IN_FLIGHT: &str = "PILLARBOX_TEST_KILLER_ALL_IN_FLIGHT";

#[derive(Clone, Copy, PartialEq)]
enum By {
    Rows,
    Lanes,
}

/// Takes everything, but for the one during which the process ends.
struct Fragile {
    all_in_flight: bool,
    handed: AtomicUsize,
}

#[async_trait]
impl Sink for Fragile {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        self.handed.fetch_add(batch.len(), Ordering::SeqCst);
        let kills = batch.iter().any(|entry| entry.event_type == KILLER);
        while self.all_in_flight && (!kills || self.handed.load(Ordering::SeqCst) <= GOOD) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if kills {
            std::process::abort();
        }
        (0..batch.len()).for_each(|index| report.outcome(index, Outcome::Confirmed));
    }
}

/// As brokers have it, attempts too, but for leases that a crash leaves behind: they are short.
fn policy() -> RelayOptions {
    let mut policy = RelayOptions::broker();
    policy.lease = Duration::from_secs(2);
    policy.reap_interval = Duration::from_millis(200);
    policy.in_flight_max = 2 * u32::try_from(GOOD).unwrap();
    policy.relays_max = 64;
    policy
}

async fn all_over(store: &impl Admin) {
    loop {
        let routes = store.counts(None).await;
        if routes.is_ok_and(|routes| routes.iter().all(|route| route.undrained() == 0)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn work<S: Store + Lanes + Admin + 'static>(store: Arc<S>, by: By) {
    let all_in_flight = std::env::var(ALL_IN_FLIGHT).is_ok();
    let sink = Arc::new(Fragile { all_in_flight, handed: AtomicUsize::new(0) });
    let relay = match by {
        By::Rows => Relay::builder(store.clone(), sink),
        By::Lanes => Relay::ordered(store.clone(), sink),
    };
    let relay = relay.route(ROUTE).options(policy()).build().unwrap();
    let _ = relay.run(all_over(&*store)).await.unwrap();
}

/// The killer stands in the middle. Each has a key of its own.
fn events() -> Vec<Event> {
    let event = |n: usize| {
        let kind = if n == GOOD / 2 { KILLER } else { "good" };
        Event::json(kind, &n).unwrap().key(format!("k-{n}"))
    };
    (0..=GOOD).map(event).collect()
}

/// Starts relays until one of them is not killed, and looks at what became of everybody.
async fn exactly_one_is_dead(child: &str, at: &str, store: &impl Admin) {
    let run = |first: bool| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([child, "--exact", "--nocapture", "--test-threads=1"]).env(AT, at).stdin(Stdio::null());
        if first {
            command.env(ALL_IN_FLIGHT, "1");
        }
        command.output().unwrap()
    };
    assert_eq!(run(true).status.signal(), Some(SIGABRT), "the first one is killed with all in flight");
    let mut kills = 1;
    loop {
        let output = run(false);
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.signal(), Some(SIGABRT), "{}", String::from_utf8_lossy(&output.stderr));
        kills += 1;
        assert!(kills < 20, "it goes on to kill");
    }
    let counts = store.counts(None).await.unwrap().remove(0).counts;
    assert_eq!((counts[&Status::Delivered], counts[&Status::Dead]), (GOOD as u64, 1), "{counts:?}");
    let dead = store.list(Filter::default().status(Status::Dead)).await.unwrap();
    assert_eq!(dead[0].event_type, KILLER);
    assert!(dead[0].last_error.as_ref().unwrap().to_string().starts_with("lease_expired"), "{:?}", dead[0]);
    assert!(kills <= 8, "three crashes in company and five of its own: {kills}");
}

async fn sqlite(at: &str) -> Arc<pillarbox::sqlite::SqliteStore> {
    let options = pillarbox::sqlite::Options::default();
    Arc::new(pillarbox::sqlite::SqliteStore::connect(at, options).await.unwrap())
}

async fn one_of_many_on_sqlite(child: &str) {
    let directory = tempfile::tempdir().unwrap();
    let at = format!("sqlite://{}", directory.path().join("killer.db").display());
    let store = sqlite(&at).await;
    store.migrate().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let staged = pillarbox::sqlite::Outbox::new(ROUTE).stage_all(&mut tx, events()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(staged.len(), GOOD + 1);
    exactly_one_is_dead(child, &at, &*store).await;
}

async fn postgres(at: &str) -> Arc<pillarbox::postgres::PostgresStore> {
    let options = pillarbox::postgres::Options::default().schema(Ident::new(at).unwrap()).create_schema(true);
    let server = variable("PILLARBOX_TEST_POSTGRES");
    Arc::new(pillarbox::postgres::PostgresStore::connect(&server, options).await.unwrap())
}

async fn one_of_many_on_postgres(child: &str) {
    let at = unique();
    let store = postgres(&at).await;
    store.migrate().await.unwrap();
    let outbox = pillarbox::postgres::Outbox::new(ROUTE).options(store.options().clone());
    let mut tx = store.pool().begin().await.unwrap();
    let staged = outbox.stage_all(&mut tx, events()).await.unwrap();
    outbox.commit(tx).await.unwrap();
    assert_eq!(staged.len(), GOOD + 1);
    exactly_one_is_dead(child, &at, &*store).await;
    let mut connection = PgConnection::connect(&variable("PILLARBOX_TEST_POSTGRES")).await.unwrap();
    let drop = AssertSqlSafe(format!("drop schema {at} cascade"));
    sqlx::raw_sql(drop).execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn one_that_kills_its_relay_is_the_only_one_dead_by_rows_on_sqlite() {
    one_of_many_on_sqlite("killer::child_by_rows_on_sqlite").await;
}

#[tokio::test]
async fn one_that_kills_its_relay_is_the_only_one_dead_by_lanes_on_sqlite() {
    one_of_many_on_sqlite("killer::child_by_lanes_on_sqlite").await;
}

#[tokio::test]
async fn one_that_kills_its_relay_is_the_only_one_dead_by_rows_on_postgres() {
    one_of_many_on_postgres("killer::child_by_rows_on_postgres").await;
}

#[tokio::test]
async fn one_that_kills_its_relay_is_the_only_one_dead_by_lanes_on_postgres() {
    one_of_many_on_postgres("killer::child_by_lanes_on_postgres").await;
}

async fn child_on_sqlite(by: By) {
    let Ok(at) = std::env::var(AT) else { return };
    work(sqlite(&at).await, by).await;
}

async fn child_on_postgres(by: By) {
    let Ok(at) = std::env::var(AT) else { return };
    work(postgres(&at).await, by).await;
}

#[tokio::test]
async fn child_by_rows_on_sqlite() {
    child_on_sqlite(By::Rows).await;
}

#[tokio::test]
async fn child_by_lanes_on_sqlite() {
    child_on_sqlite(By::Lanes).await;
}

#[tokio::test]
async fn child_by_rows_on_postgres() {
    child_on_postgres(By::Rows).await;
}

#[tokio::test]
async fn child_by_lanes_on_postgres() {
    child_on_postgres(By::Lanes).await;
}
