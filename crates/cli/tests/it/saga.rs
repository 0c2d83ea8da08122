//! What an operator sees and does of sagas, through the binary, while a program of the application runs them.

use std::sync::Arc;

use pillarbox_cli::database::{self, Database, DatabaseOptions};
use pillarbox_core::port::{Sagas, Store};
use pillarbox_core::{Reference, RouteName, Saga, SagaId, Step};
use pillarbox_engine::Relay;
use pillarbox_engine::sink::{HandlerError, Handlers};
use pillarbox_store_postgres::{self as postgres, PostgresStore};
use pillarbox_store_sqlite::{self as sqlite, SqliteStore};
use serde_json::{Value, json};

use crate::home::{Home, Said, mongodb, mysql, postgres};
use crate::many_relays::{on_mongodb, on_mysql, on_postgres};
use crate::place::wait;

const HANDLERS: [&str; 9] = [
    "crm.erase",
    "files.erase",
    "card.redact",
    "flight.book",
    "flight.cancel",
    "hotel.book",
    "hotel.cancel",
    "card.charge",
    "mail.send",
];

/// The application whose sagas these are.
pub(crate) struct Application {
    pub(crate) home: Home,
    pub(crate) store: Either,
}

pub(crate) enum Either {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
    /// Any other, as the binary sees it.
    Other(Database),
}

/// What the handlers of one run answer: done, but for these.
#[derive(Clone, Copy, Default)]
pub(crate) struct Answers {
    pub(crate) rejects: &'static [&'static str],
    pub(crate) unknown: &'static [&'static str],
}

impl Application {
    pub(crate) fn on_sqlite() -> Self {
        let home = Home::migrated();
        let url = format!("sqlite://{}", home.path("pillarbox.db").display());
        let store = wait(SqliteStore::connect(&url, sqlite::Options::default())).unwrap();
        Self { home, store: Either::Sqlite(store) }
    }

    pub(crate) fn on_postgres() -> Self {
        let home = on_postgres();
        let config = home.read("pillarbox.toml");
        let (_, schema) = config.split_once("schema = \"").unwrap();
        let mut options = postgres::Options::default();
        options.schema = Some(schema.split_once('"').unwrap().0.parse().unwrap());
        let store = wait(PostgresStore::connect(&postgres(), options)).unwrap();
        Self { home, store: Either::Postgres(store) }
    }

    fn on_mysql() -> Self {
        Self::on(on_mysql(), &mysql())
    }

    fn on_mongodb() -> Self {
        Self::on(on_mongodb(), &mongodb())
    }

    /// The tables that the configuration of this home names.
    fn on(home: Home, url: &str) -> Self {
        let config = home.read("pillarbox.toml");
        let (_, prefix) = config.split_once("prefix = \"").unwrap();
        let prefix = Some(prefix.split_once('"').unwrap().0.parse().unwrap());
        let options = DatabaseOptions { prefix, ..DatabaseOptions::default() };
        let store = wait(database::connect(url, options)).unwrap();
        Self { home, store: Either::Other(store) }
    }

    pub(crate) fn stage(&self, saga: Saga) -> String {
        let id: SagaId = wait(async {
            match &self.store {
                Either::Sqlite(store) => {
                    let outbox = sqlite::Outbox::new("sagas").options(store.options().clone());
                    let mut tx = store.pool().begin().await.unwrap();
                    let staged = outbox.stage_saga(&mut tx, saga).await.unwrap();
                    outbox.commit(tx).await.unwrap();
                    staged.id()
                }
                Either::Postgres(store) => {
                    let outbox = postgres::Outbox::new("sagas").options(store.options().clone());
                    let mut tx = store.pool().begin().await.unwrap();
                    let staged = outbox.stage_saga(&mut tx, saga).await.unwrap();
                    outbox.commit(tx).await.unwrap();
                    staged.id()
                }
                Either::Other(database) => {
                    let outbox = database.staging.outbox(&RouteName::new("sagas").unwrap());
                    let mut tx = database.staging.begin().await.unwrap();
                    let staged = tx.stage_saga(&outbox, saga).await.unwrap();
                    tx.commit().await.unwrap();
                    staged.id()
                }
            }
        });
        id.to_string()
    }

    /// Runs everything that is due.
    pub(crate) fn work(&self, answers: Answers) {
        let (store, sagas): (Arc<dyn Store>, Arc<dyn Sagas>) = match &self.store {
            Either::Sqlite(store) => (Arc::new(store.clone()), Arc::new(store.sagas())),
            Either::Postgres(store) => (Arc::new(store.clone()), Arc::new(store.sagas())),
            Either::Other(database) => (Arc::clone(&database.store), database.staging.sagas()),
        };
        let mut handlers = Handlers::new();
        for name in HANDLERS {
            handlers = handlers
                .on(name, move |_| async move {
                    if answers.rejects.contains(&name) {
                        return Err(HandlerError::reject("refused", "not for this one"));
                    }
                    if answers.unknown.contains(&name) {
                        return Err(HandlerError::unknown("timeout", "no answer came"));
                    }
                    Ok(())
                })
                .unwrap();
        }
        let relay = Relay::sagas(store, sagas, Arc::new(handlers)).route("sagas").owner("worker-1").build();
        wait(relay.unwrap().drain()).unwrap();
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        self.home.ok(["saga", "show", id, "--json"]).json()
    }

    fn list(&self, filter: &[&str]) -> Vec<Value> {
        self.home.ok(["saga", "list", "--json"].iter().chain(filter)).lines()
    }

    /// The kinds of the audit records of a subject.
    pub(crate) fn audit(&self, subject: &str) -> Vec<String> {
        let records = self.home.ok(["saga", "audit", subject, "--json"]).lines();
        records.iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect()
    }

    fn resume(&self, id: &str, more: &[&str]) -> Said {
        self.home.run(["saga", "resume", id].iter().chain(more))
    }
}

pub(crate) fn erasure(person: u32) -> Saga {
    Saga::group("erase_person", Reference::new("person", format!("p-{person}")))
        .step(Step::new("crm", "crm.erase"))
        .step(Step::new("files", "files.erase"))
        .step(Step::new("card", "card.redact").reference(Reference::new("card", "4711")))
        .build()
        .unwrap()
}

pub(crate) fn booking(number: u32) -> Saga {
    Saga::ordered("booking", Reference::new("booking", format!("b-{number}")))
        .step(Step::compensatable("flight", "flight.book", "flight.cancel"))
        .step(Step::compensatable("hotel", "hotel.book", "hotel.cancel"))
        .step(Step::pivot("payment", "card.charge").max_attempts(1))
        .step(Step::retryable("mail", "mail.send"))
        .build()
        .unwrap()
}

fn whats(shown: &Value) -> Vec<&str> {
    shown["timeline"].as_array().unwrap().iter().map(|item| item["what"].as_str().unwrap()).collect()
}

fn a_blocked_saga_is_seen_everywhere_and_resumed(application: &Application) {
    let home = &application.home;
    let blocked = application.stage(erasure(1));
    application.work(Answers { rejects: &["card.redact"], ..Answers::default() });
    let running = application.stage(booking(1));

    assert_eq!(application.list(&[]).len(), 2);
    assert_eq!(application.list(&["--limit", "1"])[0]["id"], *blocked, "oldest first");
    assert_eq!(application.list(&["--status", "blocked"])[0]["id"], *blocked);
    assert_eq!(application.list(&["--name", "booking"])[0]["id"], *running);
    assert_eq!(application.list(&["--subject", "person/p-1"]).len(), 1);
    assert!(application.list(&["--subject", "person/p-2"]).is_empty());
    let people = home.ok(["saga", "list", "--limit", "1"]);
    assert!(people.stdout.contains("2/3") && people.stdout.contains("rejected/refused"), "{people:?}");
    assert!(people.stderr.contains("--limit"), "{people:?}");

    let status = home.ok(["status", "--json"]).json()["sagas"].clone();
    assert_eq!((&status["running"], &status["blocked"], &status["stuck"]), (&json!(1), &json!(1), &json!(1)));
    assert!(status["oldest_stuck_age_seconds"].as_f64().is_some_and(|age| age >= 0.0), "{status}");
    assert!(home.ok(["status"]).stdout.contains("oldest stuck"));
    home.run(["status", "--check"]).refused(3, &["1 saga blocked", "pillarbox saga list --status blocked"]);

    let shown = application.show(&blocked);
    assert_eq!((&shown["status"], &shown["steps"][2]["state"]), (&json!("blocked"), &json!("dead")));
    let count = |what| whats(&shown).iter().filter(|is| **is == what).count();
    assert_eq!(
        ["staged", "step_staged", "attempt", "step_succeeded", "step_failed"].map(count),
        [1, 3, 3, 2, 1]
    );
    assert_eq!(
        (shown["entries"].as_array().unwrap().len(), shown["audit"].as_array().unwrap().len()),
        (3, 3)
    );
    let people = home.ok(["saga", "show", &blocked]);
    for part in ["person/p-1", "card.redact", "step_failed", "worker-1", "abandoned: rejected/refused"] {
        assert!(people.stdout.contains(part), "{part}: {people:?}");
    }
    assert!(people.stderr.contains("saga resume"), "{people:?}");

    let dry = application.resume(&blocked, &["--dry-run", "--json"]);
    let expected = |dry_run: bool| json!({"saga": *blocked, "status": "running", "requeued": 1, "discarded": 0, "dry_run": dry_run});
    assert_eq!(dry.json(), expected(true));
    assert_eq!(application.show(&blocked)["status"], "blocked");
    assert_eq!(application.resume(&blocked, &["--json"]).json(), expected(false));
    application.work(Answers::default());
    assert_eq!(application.show(&blocked)["status"], "completed");
    let kinds = application.audit("person/p-1");
    assert_eq!(kinds.iter().filter(|kind| *kind == "step_succeeded").count(), 3);
    assert_eq!(kinds[3..], ["resumed", "step_succeeded", "completed"]);
    application.resume(&blocked, &[]).refused(1, &["completed", "nothing to resume"]);
    assert_eq!(home.run(["status", "--check"]).code, 0);
}

#[test]
fn a_blocked_saga_on_sqlite_is_seen_everywhere_and_resumed() {
    a_blocked_saga_is_seen_everywhere_and_resumed(&Application::on_sqlite());
}

#[test]
fn a_blocked_saga_on_postgres_is_seen_everywhere_and_resumed() {
    a_blocked_saga_is_seen_everywhere_and_resumed(&Application::on_postgres());
}

#[test]
fn a_blocked_saga_on_mysql_is_seen_everywhere_and_resumed() {
    a_blocked_saga_is_seen_everywhere_and_resumed(&Application::on_mysql());
}

#[test]
fn a_blocked_saga_on_mongodb_is_seen_everywhere_and_resumed() {
    a_blocked_saga_is_seen_everywhere_and_resumed(&Application::on_mongodb());
}

fn a_list_goes_on_behind_a_cursor(application: &Application) {
    for person in 1..=3 {
        application.stage(erasure(person));
    }
    application.work(Answers::default());
    application.stage(booking(1));
    application.stage(booking(2));

    let all = application.list(&[]);
    assert_eq!(all.len(), 5);
    let page = application.list(&["--limit", "2"]);
    assert_eq!(page, all[..2]);
    let cursor = page[1]["cursor"].as_str().unwrap();
    let people = application.home.ok(["saga", "list", "--limit", "2"]);
    assert!(people.stderr.contains(&format!("--after {cursor}")), "{people:?}");
    assert_eq!(application.list(&["--after", cursor]), all[2..]);
    assert_eq!(application.list(&["--after", cursor, "--limit", "1"]), all[2..3]);
    assert_eq!(application.list(&["--after", cursor, "--status", "completed"]), all[2..3]);
    assert_eq!(application.list(&["--after", cursor, "--name", "booking"]), all[3..]);
    let last = all[4]["cursor"].as_str().unwrap();
    assert!(application.home.ok(["saga", "list", "--after", last]).stderr.contains("no sagas match"));
}

#[test]
fn a_list_of_sagas_on_sqlite_goes_on_behind_a_cursor() {
    a_list_goes_on_behind_a_cursor(&Application::on_sqlite());
}

#[test]
fn a_list_of_sagas_on_postgres_goes_on_behind_a_cursor() {
    a_list_goes_on_behind_a_cursor(&Application::on_postgres());
}

#[test]
fn a_list_of_sagas_on_mysql_goes_on_behind_a_cursor() {
    a_list_goes_on_behind_a_cursor(&Application::on_mysql());
}

#[test]
fn a_list_of_sagas_on_mongodb_goes_on_behind_a_cursor() {
    a_list_goes_on_behind_a_cursor(&Application::on_mongodb());
}

fn an_unknown_outcome_is_undone_when_an_operator_says_so(application: &Application) {
    let id = application.stage(booking(1));
    application.work(Answers { unknown: &["card.charge"], ..Answers::default() });
    assert_eq!(application.show(&id)["status"], "blocked", "unknown is not failed: nothing was undone");

    application
        .resume(&id, &["--compensate"])
        .refused(2, &["the steps of booking of booking/b-1 that may have run will be undone", "--yes"]);
    assert_eq!(application.show(&id)["status"], "blocked");
    let said = application.resume(&id, &["--compensate", "--yes"]);
    let changed = format!("saga {id} is compensating, 1 entry discarded");
    assert_eq!((said.code, said.stdout.trim()), (0, &*changed), "{said:?}");

    application.work(Answers { rejects: &["hotel.cancel"], ..Answers::default() });
    assert_eq!(application.show(&id)["status"], "compensation_failed");
    application.home.run(["status", "--check"]).refused(3, &["1 saga compensation_failed"]);
    assert_eq!(application.resume(&id, &["--json"]).json()["requeued"], 1);
    application.work(Answers::default());

    let shown = application.show(&id);
    assert_eq!(shown["status"], "compensated");
    assert!(shown["ended_at"].is_string(), "{shown}");
    assert_eq!(
        application.audit("booking/b-1"),
        [
            "step_succeeded",
            "step_succeeded",
            "step_failed",
            "resumed",
            "compensating",
            "compensation_failed",
            "step_compensated",
            "resumed",
            "step_compensated",
            "compensated"
        ]
    );
}

#[test]
fn an_unknown_outcome_on_sqlite_is_undone_when_an_operator_says_so() {
    an_unknown_outcome_is_undone_when_an_operator_says_so(&Application::on_sqlite());
}

#[test]
fn an_unknown_outcome_on_postgres_is_undone_when_an_operator_says_so() {
    an_unknown_outcome_is_undone_when_an_operator_says_so(&Application::on_postgres());
}

#[test]
fn an_unknown_outcome_on_mysql_is_undone_when_an_operator_says_so() {
    an_unknown_outcome_is_undone_when_an_operator_says_so(&Application::on_mysql());
}

#[test]
fn an_unknown_outcome_on_mongodb_is_undone_when_an_operator_says_so() {
    an_unknown_outcome_is_undone_when_an_operator_says_so(&Application::on_mongodb());
}

fn a_requeued_step_lets_its_saga_complete(application: &Application) {
    let ids = [1, 2].map(|person| application.stage(erasure(person)));
    application.work(Answers { rejects: &["crm.erase"], ..Answers::default() });
    assert_eq!(application.list(&["--status", "blocked"]).len(), 2);
    let said = application.home.ok(["requeue", "--route", "sagas", "--status", "dead", "--yes", "--json"]);
    assert_eq!(said.json()["changed"], 2);
    application.work(Answers::default());
    for id in ids {
        assert_eq!(application.show(&id)["status"], "completed");
    }
    let kinds = application.audit("person/p-2");
    assert_eq!(kinds[3..], ["requeued", "step_succeeded", "completed"], "{kinds:?}");
}

#[test]
fn a_requeued_step_on_sqlite_lets_its_saga_complete() {
    a_requeued_step_lets_its_saga_complete(&Application::on_sqlite());
}

#[test]
fn a_requeued_step_on_postgres_lets_its_saga_complete() {
    a_requeued_step_lets_its_saga_complete(&Application::on_postgres());
}

fn ended_sagas_are_purged_and_their_trails_stay(application: &Application) {
    let home = &application.home;
    let (first, second) = (application.stage(erasure(1)), application.stage(erasure(2)));
    application.work(Answers::default());
    let stuck = application.stage(erasure(3));
    application.work(Answers { rejects: &["crm.erase"], ..Answers::default() });

    let purge = |more: &[&str]| home.ok(["purge", "--json", "--yes"].iter().chain(more)).json();
    assert_eq!(purge(&[])["sagas_purged"], 0, "thirty days are the default");
    home.run(["purge", "--sagas-older-than", "0s"]).refused(2, &["2 sagas", "--yes"]);
    assert_eq!(purge(&["--sagas-older-than", "0s", "--dry-run"])["sagas_purged"], 2);
    assert_eq!(purge(&["--sagas-older-than", "0s"])["sagas_purged"], 2);
    for id in [&first, &second] {
        home.run(["saga", "show", id]).refused(1, &["no saga"]);
    }
    assert_eq!(home.ok(["saga", "list", "--json"]).json()["id"], stuck.as_str(), "it waits for somebody");
    let trail = home.ok(["saga", "audit", "person/p-1", "--json"]);
    assert_eq!(trail.stdout.lines().count(), 4, "{trail:?}");

    application.stage(erasure(4));
    application.work(Answers::default());
    let config = match application.store {
        Either::Sqlite(_) => String::new(),
        Either::Postgres(_) | Either::Other(_) => home.read("pillarbox.toml"),
    };
    home.write(
        "pillarbox.toml",
        &format!("{config}\n[routes.other]\nto = \"null:\"\n[retention]\nsagas = \"0s\"\n"),
    );
    home.ok(["relay", "--drain"]);
    assert_eq!(home.ok(["saga", "list", "--json"]).stdout.lines().count(), 1, "a relay does it by itself");
}

#[test]
fn ended_sagas_on_sqlite_are_purged_and_their_trails_stay() {
    ended_sagas_are_purged_and_their_trails_stay(&Application::on_sqlite());
}

#[test]
fn ended_sagas_on_postgres_are_purged_and_their_trails_stay() {
    ended_sagas_are_purged_and_their_trails_stay(&Application::on_postgres());
}

#[test]
fn a_saga_is_drawn_with_the_state_of_its_steps() {
    let application = Application::on_sqlite();
    let id = application.stage(booking(1));
    application.work(Answers { rejects: &["hotel.book"], ..Answers::default() });
    let drawn = application.home.ok(["saga", "diagram", &id]).stdout;
    assert!(drawn.starts_with("flowchart LR\n"), "{drawn}");
    for part in ["flight.book<br/>compensated", "hotel.book<br/>failed", "{{\"payment", "undo flight"] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    let json = application.home.ok(["saga", "diagram", &id, "--json"]).json();
    assert_eq!(json["mermaid"].as_str().unwrap().trim_end(), drawn.trim_end());
}

#[test]
fn what_is_wrong_with_a_saga_command_is_said() {
    let home = Home::new();
    home.run(["saga", "list"]).refused(4, &["pillarbox migrate"]);
    home.ok(["migrate"]);
    assert!(home.ok(["saga", "list"]).stderr.contains("no sagas match"));
    assert!(home.ok(["saga", "audit", "person/p-1"]).stderr.contains("no audit record of person/p-1"));
    assert!(!home.ok(["status"]).stdout.contains("sagas"));
    let nobody = "00000000-0000-0000-0000-000000000000";
    for command in ["show", "resume", "diagram"] {
        home.run(["saga", command, nobody]).refused(1, &["there is no saga", "pillarbox saga list"]);
        home.run(["saga", command, "p-1"]).refused(2, &["not a saga id"]);
    }
    home.run(["saga", "list", "--status", "dead"]).refused(2, &["compensation_failed"]);
    home.run(["saga", "list", "--subject", "p-1"]).refused(2, &["KIND/VALUE"]);
    home.run(["saga", "list", "--limit", "10001"]).refused(2, &["10000"]);
    home.run(["saga", "list", "--after", "7"]).refused(2, &["no cursor", "1763171696123456-"]);
    home.run(["saga", "resume", nobody, "--retry", "--compensate"]).refused(2, &["--compensate"]);
    home.run(["saga", "abandon", nobody]).refused(2, &["--reason"]);
    home.run(["saga", "abandon", nobody, "--reason", "why"]).refused(1, &["there is no saga"]);
    home.run(["saga", "skip", nobody, "mail", "--reason", "why"]).refused(1, &["there is no saga"]);
    let help = home.ok(["saga", "resume", "--help"]).stdout;
    assert!(help.contains("Examples:") && help.contains("--dry-run"), "{help}");
}
