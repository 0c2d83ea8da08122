//! The examples of sagas: an erasure that is killed again and again, a booking that is undone, and three ways to run them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillarbox::operate::{AuditKind, AuditRecord, SagaFilter, SagaRecord};
use pillarbox::postgres::{self, PostgresStore};
use pillarbox::sqlite::{Options, SqliteStore};
use pillarbox::{SagaAdmin, SagaStatus};
use sqlx::{Row, SqlitePool};

use crate::services::{Service, variable, wait};
use crate::{psql, run};

/// People of one run of the example; one of them has a dispute, and is blocked.
const PEOPLE: u32 = 5;
const KILLS: u32 = 20;

/// What is known of an erasure after its program has ended.
struct Known {
    sagas: Vec<SagaRecord>,
    trails: BTreeMap<String, Vec<AuditRecord>>,
    /// How often the end of a saga was recorded, by person.
    erased: BTreeMap<String, i64>,
    /// How many keys the payment provider has seen, by person.
    keys: BTreeMap<String, i64>,
}

/// How often something is there, by person.
const ERASED: &str = "select person, count(*) from erased group by person";
const REDACTED: &str = "select customer, count(*) from redactions group by customer";

impl Known {
    async fn on_sqlite(folder: &Path) -> Self {
        let store = SqliteStore::connect(&file(folder, "application.db"), Options::default()).await.unwrap();
        let erased = counted(store.pool(), ERASED).await;
        let known = Self::of(&store, erased, folder).await;
        store.close().await;
        known
    }

    async fn on_postgres(database: &Database, folder: &Path) -> Self {
        let store = PostgresStore::connect(&database.url, postgres::Options::default()).await.unwrap();
        let rows = database.rows(ERASED);
        let row = |row: &String| {
            let (person, times) = row.split_once('|').unwrap();
            (person.to_owned(), times.parse().unwrap())
        };
        let known = Self::of(&store, rows.iter().map(row).collect(), folder).await;
        store.close().await;
        known
    }

    async fn of(store: &impl SagaAdmin, erased: BTreeMap<String, i64>, folder: &Path) -> Self {
        let sagas = store.list_sagas(SagaFilter::default().limit(10_000)).await.unwrap();
        let mut trails = BTreeMap::new();
        for saga in &sagas {
            trails.insert(saga.subject.value.clone(), store.audit_of(&saga.subject).await.unwrap());
        }
        let payments = pillarbox::sqlite::app_pool(&file(folder, "payments.db")).await.unwrap();
        let keys = counted(&payments, REDACTED).await;
        payments.close().await;
        Self { sagas, trails, erased, keys }
    }

    /// Everybody is erased once, or visibly blocked, and the trail says how without a gap.
    fn check(&self, people: u32) {
        assert_eq!(self.sagas.len(), people as usize);
        for saga in &self.sagas {
            let person = &saga.subject.value;
            let in_dispute = person.ends_with(['3', '8']);
            let trail = &self.trails[person];
            let count = |kind| trail.iter().filter(|record| record.kind == kind).count();
            let of_step = |step: &str| -> Vec<AuditKind> {
                let records = trail.iter().filter(|record| record.step.as_deref() == Some(step));
                records.map(|record| record.kind).collect()
            };
            assert!(trail.iter().all(|record| record.saga_id == Some(saga.id)), "{trail:?}");
            assert_eq!(of_step("database"), [AuditKind::StepSucceeded], "{trail:?}");
            assert_eq!(of_step("files"), [AuditKind::StepSucceeded], "{trail:?}");
            let times = self.erased.get(person).copied().unwrap_or(0);
            if in_dispute {
                assert_eq!((saga.status, times), (SagaStatus::Blocked, 0), "{person}");
                assert_eq!((of_step("payments"), trail.len()), (vec![AuditKind::StepFailed], 3), "{trail:?}");
                assert!(!self.keys.contains_key(person));
            } else {
                assert_eq!((saga.status, times), (SagaStatus::Completed, 1), "{person}");
                assert_eq!(of_step("payments"), [AuditKind::StepSucceeded], "{trail:?}");
                assert_eq!((trail.len(), count(AuditKind::Completed)), (4, 1), "{trail:?}");
                assert_eq!(trail[3].kind, AuditKind::Completed, "the end is told last: {trail:?}");
                assert_eq!(self.keys.get(person), Some(&1), "one key for all attempts of {person}");
            }
        }
    }

    /// Rolled-back records leave no hole in SQLite: what is missing was deleted.
    fn check_numbers(&self) {
        let mut seqs: Vec<i64> = self.trails.values().flatten().map(|record| record.seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=i64::try_from(seqs.len()).unwrap()).collect::<Vec<_>>());
    }
}

fn file(folder: &Path, name: &str) -> String {
    format!("sqlite://{}", folder.join(name).display())
}

async fn counted(pool: &SqlitePool, sql: &'static str) -> BTreeMap<String, i64> {
    let rows = sqlx::query(sql).fetch_all(pool).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn erasure(folder: &Path, people: u32, seed: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_erasure"));
    command.arg(folder).arg(people.to_string()).arg(seed.to_string()).stdin(Stdio::null());
    command.env_remove("DATABASE_URL");
    command
}

#[test]
fn the_erasure_example_prints_what_became_of_everybody_and_the_proof() {
    let folder = tempfile::tempdir().unwrap();
    let output = erasure(folder.path(), PEOPLE, 1).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches(": completed").count(), 4, "{text}");
    assert!(text.contains("person/p-3: blocked") && text.contains("rejected/in_dispute"), "{text}");
    assert_eq!(text.matches(" step_succeeded ").count(), 4 * 3 + 2, "{text}");
    let known = wait(Known::on_sqlite(folder.path()));
    known.check(PEOPLE);
    known.check_numbers();
}

/// Waits for so many lines and a moment more, and kills it. `false`: it had ended by itself.
#[expect(clippy::disallowed_methods, reason = "the moment of a kill is to be any, not one after a line")]
fn killed(mut child: Child, lines: u64, more: Duration) -> bool {
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..lines {
        if said.next().is_none() {
            break;
        }
    }
    std::thread::sleep(more);
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    alive
}

/// A generator of our own: the same kills from the same seed.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Starts it with more and more work, and kills it, until it was killed often enough. Returns how much work that was.
#[expect(clippy::print_stdout, reason = "whoever reads the report of a failure needs the seed")]
fn kill_twenty_times(more: u32, lines_max: u64, start: impl Fn(u32, u64) -> Command) -> u32 {
    let seed: u64 = std::env::var("PILLARBOX_SEED").map_or(20, |seed| seed.parse().unwrap());
    println!("PILLARBOX_SEED={seed}");
    let (mut state, mut kills, mut work) = (seed, 0, 0);
    while kills < KILLS {
        // More of it each time, so that there is always something to kill it at.
        work += more;
        assert!(work < 5 * more * KILLS, "it is over before it can be killed");
        let child = start(work, seed + u64::from(work)).stdout(Stdio::piped()).spawn().unwrap();
        let lines = random(&mut state, lines_max);
        let moment = Duration::from_micros(random(&mut state, 20_000));
        kills += u32::from(killed(child, lines, moment));
    }
    work
}

#[test]
fn an_erasure_killed_twenty_times_completes_everybody_once_or_is_visibly_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let start = |people, seed| erasure(folder.path(), people, seed);
    let people = kill_twenty_times(PEOPLE, 18, start);
    assert!(start(people, 1).stdout(Stdio::null()).status().unwrap().success());
    let known = wait(Known::on_sqlite(folder.path()));
    known.check(people);
    known.check_numbers();
}

#[test]
fn an_erasure_on_postgresql_killed_twenty_times_completes_everybody_once_or_is_visibly_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create("killed_erasure");
    let start = |people, seed| {
        let mut command = erasure(folder.path(), people, seed);
        command.env("DATABASE_URL", &database.url);
        command
    };
    let people = kill_twenty_times(PEOPLE, 18, start);
    assert!(start(people, 1).stdout(Stdio::null()).status().unwrap().success());
    wait(Known::on_postgres(&database, folder.path())).check(people);
}

/// A database of PostgreSQL for one test; dropped at its end.
struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    fn create(name: &str) -> Self {
        let server = variable("PILLARBOX_TEST_POSTGRES");
        let name = format!("{name}_{}", std::process::id());
        psql(&server, &format!("create database {name}"));
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        Self { server, name, url }
    }

    fn booking(&self, bookings: u32) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_booking"));
        command.arg(bookings.to_string()).env("DATABASE_URL", &self.url).stdin(Stdio::null());
        command
    }

    /// The rows of a query, their columns with `|` in between.
    fn rows(&self, sql: &str) -> Vec<String> {
        let output = run("psql", |command| {
            command.args([
                &self.url,
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--command",
                sql,
            ]);
        });
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Every booking has ended once, with everything or with nothing, and the trail says how without a gap.
    fn check(&self, bookings: u32) {
        let sagas = self.rows(
            "select b.id, b.status, s.status, count(*), \
               (select string_agg(what || ' ' || cancelled, ',' order by what) from reservations where booking = b.id), \
               (select string_agg(kind || ' ' || coalesce(step, '-'), ',' order by seq) \
                from pillarbox_audit where subject_value = b.id) \
             from bookings b join pillarbox_saga s on s.subject_value = b.id group by 1, 2, 3",
        );
        assert_eq!(sagas.len(), bookings as usize);
        for saga in sagas {
            let [booking, told, status, count, made, trail] = saga.split('|').collect::<Vec<_>>()[..] else {
                panic!("{saga}")
            };
            let number: u32 = booking.strip_prefix("b-").unwrap().parse().unwrap();
            let expected = if number % 3 == 1 { "completed" } else { "compensated" };
            assert_eq!((told, status, count), (expected, expected, "1"), "{booking}");
            // A hotel that refused at a later attempt may have a reservation of an earlier one: it is undone too.
            let trail: Vec<&str> = trail.split(',').collect();
            let (flight, hotel) = ("step_compensated flight", "step_compensated hotel");
            match number % 3 {
                1 => {
                    assert_eq!(made, "flight false,hotel false", "{booking}");
                    assert_eq!(trail[..2], ["step_succeeded flight", "step_succeeded hotel"], "{booking}");
                    let rest = ["step_succeeded payment", "step_succeeded mail", "completed -"];
                    assert_eq!(trail[2..], rest, "{booking}");
                }
                2 => {
                    assert_eq!(made, "flight true", "{booking}");
                    let begin = ["step_succeeded flight", "step_failed hotel", "compensating -"];
                    assert_eq!(trail[..3], begin, "{booking}");
                    let twice: &[&str] = &[hotel, flight, "compensated -"];
                    assert!(trail[3..] == twice[1..] || trail[3..] == *twice, "{booking}: {trail:?}");
                }
                _ => {
                    assert_eq!(made, "flight true,hotel true", "{booking}");
                    assert_eq!(trail[..2], ["step_succeeded flight", "step_succeeded hotel"], "{booking}");
                    assert_eq!(trail[2..4], ["step_failed payment", "compensating -"], "{booking}");
                    assert_eq!(trail[4..], [hotel, flight, "compensated -"], "{booking}: in reverse");
                }
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        psql(&self.server, &format!("drop database {} with (force)", self.name));
    }
}

#[test]
fn the_booking_example_gives_back_what_it_reserved_in_reverse() {
    let database = Database::create("booking");
    let output = database.booking(3).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("flowchart LR\n"), "{text}");
    assert!(text.contains("mail about b-1, with its flight: true"), "{text}");
    assert!(text.contains("booking/b-1: completed") && text.contains("booking/b-3: compensated"), "{text}");
    database.check(3);
}

#[test]
fn bookings_killed_twenty_times_end_once_with_everything_or_nothing() {
    let database = Database::create("killed_booking");
    let bookings = kill_twenty_times(3, 9, |bookings, _| database.booking(bookings));
    assert!(database.booking(bookings).stdout(Stdio::null()).status().unwrap().success());
    database.check(bookings);
}

#[test]
fn sagas_run_inside_an_axum_service_in_a_worker_and_from_cron() {
    let program = env!("CARGO_BIN_EXE_saga-wiring");
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("erasures.db");
    let service = Service::start(program, "serve", &database, "127.0.0.1:0");
    let address = service.says().strip_prefix("listening on ").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!("POST /people/p-1/erasure HTTP/1.1\r\nhost: {address}\r\n");
    stream.write_all(format!("{head}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let two = |service: &Service| {
        let mut said = [service.says(), service.says()];
        said.sort();
        said
    };
    assert_eq!(two(&service), ["p-1 erased from crm", "p-1 erased from files"]);
    assert_eq!(service.stop(), ["delivered 2"]);

    let once = |what: &str, more: &str| {
        let output = run(program, |command| {
            command.arg(what).arg(&database).arg(more);
        });
        String::from_utf8(output.stdout).unwrap()
    };
    once("request", "p-2");
    let said = once("cron", "");
    assert!(said.contains("p-2 erased from crm") && said.ends_with("delivered 2\n"), "{said}");
    assert_eq!(once("cron", ""), "delivered 0\n");

    once("request", "p-3");
    let worker = Service::start(program, "worker", &database, "");
    assert_eq!(two(&worker), ["p-3 erased from crm", "p-3 erased from files"]);
    assert_eq!(worker.stop(), ["delivered 2"]);
}
