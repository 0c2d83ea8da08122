//! How an operator ends a saga that does not go on by itself, and what keeps one from being lost by accident.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_core::port::{AnnounceRequest, Presence, RunId};
use pillarbox_core::{CircuitState, RouteName, Saga};
use serde_json::json;

use crate::home::Said;
use crate::place::wait;
use crate::saga::{Answers, Application, Either, booking, erasure};

/// A way to get stuck, and what an operator can do about it.
struct Stuck {
    saga: fn(u32) -> Saga,
    answers: Answers,
    rounds: usize,
    advised: &'static [&'static str],
}

const STUCK: [Stuck; 4] = [
    Stuck {
        saga: erasure,
        answers: Answers { rejects: &["crm.erase"], unknown: &[] },
        rounds: 1,
        advised: &["resume", "skip", "abandon"],
    },
    Stuck {
        saga: booking,
        answers: Answers { rejects: &[], unknown: &["card.charge"] },
        rounds: 1,
        advised: &["resume", "resume", "abandon"],
    },
    Stuck {
        saga: booking,
        answers: Answers { rejects: &["mail.send"], unknown: &[] },
        rounds: 1,
        advised: &["resume", "skip", "abandon"],
    },
    Stuck {
        saga: booking,
        answers: Answers { rejects: &["card.charge", "hotel.cancel"], unknown: &[] },
        rounds: 1,
        advised: &["resume", "abandon"],
    },
];

/// The commands that a text tells to type, without the program's name.
fn commands(said: &Said) -> Vec<Vec<String>> {
    let typed = said.stderr.lines().filter_map(|line| line.split_once("  pillarbox "));
    typed.map(|(_, command)| command.split_whitespace().map(str::to_owned).collect()).collect()
}

fn what_saga_show_advises_works_when_it_is_typed(application: &Application) {
    let home = &application.home;
    let mut number = 0;
    for stuck in STUCK {
        for place in 0..stuck.advised.len() {
            number += 1;
            let id = application.stage((stuck.saga)(number));
            for _ in 0..stuck.rounds {
                application.work(stuck.answers);
            }
            let shown = home.ok(["--config", "pillarbox.toml", "saga", "show", &id]);
            let advised = commands(&shown);
            let verbs: Vec<&str> = advised.iter().map(|command| command[3].as_str()).collect();
            assert_eq!(verbs, stuck.advised, "{shown:?}");
            assert_eq!(
                advised[place][..3],
                ["--config", "pillarbox.toml", "saga"],
                "the same database: {shown:?}"
            );
            let json = application.show(&id);
            assert_eq!(json["advice"].as_array().unwrap().len(), advised.len());
            // There is no terminal to ask on here.
            let done = home.run(advised[place].iter().map(String::as_str).chain(["--yes"]));
            assert_eq!(done.code, 0, "{:?}: {done:?}", advised[place]);
            for _ in 0..2 {
                application.work(Answers::default());
            }
            let ended = application.show(&id);
            assert!(ended["ended_at"].is_string(), "{:?}: {ended}", advised[place]);
            assert_eq!(ended["advice"], json!([]));
        }
    }
    assert_eq!(home.run(["status", "--check"]).code, 0, "nothing of them is left");
}

#[test]
fn what_saga_show_advises_on_sqlite_works_when_it_is_typed() {
    let application = Application::on_sqlite();
    application.home.write("pillarbox.toml", "");
    what_saga_show_advises_works_when_it_is_typed(&application);
}

#[test]
fn what_saga_show_advises_on_postgres_works_when_it_is_typed() {
    what_saga_show_advises_works_when_it_is_typed(&Application::on_postgres());
}

fn a_discard_refuses_the_steps_of_open_sagas(application: &Application) {
    let home = &application.home;
    let ids = [1, 2].map(|person| application.stage(erasure(person)));
    home.ok(["stage", "--route", "sagas", "--type", "nobody.knows", "--payload", "{}"]);
    application.work(Answers { rejects: &["crm.erase"], ..Answers::default() });
    let bulk = ["discard", "--route", "sagas", "--status", "dead"];
    let dead = || home.ok(["status", "--json"]).json()["total"]["dead"].clone();
    assert_eq!(dead(), 3);
    for more in [&["--yes"][..], &["--dry-run"]] {
        let said = home.run(bulk.iter().chain(more));
        said.refused(
            2,
            &["nothing was discarded", "2 sagas that have not ended", &ids[0], &ids[1], "--sagas"],
        );
    }
    assert_eq!(dead(), 3);
    assert!(home.ok(["discard", "--type", "nobody.knows", "--yes"]).stdout.contains("1 entry discarded"));

    let again = home.ok(["requeue", "--route", "sagas", "--status", "dead", "--yes"]);
    assert!(again.stderr.contains("2 sagas can continue") && again.stderr.contains(&ids[1]), "{again:?}");
    application.work(Answers { rejects: &["crm.erase"], ..Answers::default() });

    home.run(bulk.iter().chain(&["--sagas"]))
        .refused(2, &["2 sagas will be abandoned, with nothing undone", "--yes"]);
    let dry = home.ok(bulk.iter().chain(&["--sagas", "--dry-run", "--json"])).json();
    assert_eq!((&dry["changed"], dry["sagas"].as_array().unwrap().len()), (&json!(0), 2), "{dry}");
    let said = home.ok(bulk.iter().chain(&["--sagas", "--yes", "--json"])).json();
    let sagas: BTreeSet<&str> =
        said["sagas"].as_array().unwrap().iter().filter_map(|id| id.as_str()).collect();
    assert_eq!((&said["changed"], sagas), (&json!(2), ids.iter().map(String::as_str).collect()), "{said}");
    for id in &ids {
        assert_eq!(application.show(id)["status"], "abandoned");
    }
    assert_eq!(application.audit("person/p-1").last().unwrap(), "abandoned");
    assert_eq!(home.ok(["status", "--json"]).json()["sagas"]["abandoned"], 2);
    assert_eq!(home.run(["status", "--check"]).code, 0);
}

#[test]
fn a_discard_on_sqlite_refuses_the_steps_of_open_sagas() {
    a_discard_refuses_the_steps_of_open_sagas(&Application::on_sqlite());
}

#[test]
fn a_discard_on_postgres_refuses_the_steps_of_open_sagas() {
    a_discard_refuses_the_steps_of_open_sagas(&Application::on_postgres());
}

/// Says that a relay of this mode is running on the sagas' route.
fn announce(application: &Application, run: i64, mode: &str) {
    let request = AnnounceRequest {
        run: RunId(run),
        route: RouteName::new("sagas").unwrap(),
        owner: format!("relay-{run}"),
        mode: mode.into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit: CircuitState::Closed,
        outage: None,
        lease: Duration::from_secs(60),
        on_dead: None,
        now: None,
    };
    match &application.store {
        Either::Sqlite(store) => wait(store.announce(request)).unwrap(),
        Either::Postgres(store) => wait(store.announce(request)).unwrap(),
        Either::Other(database) => wait(database.presence.announce(request)).unwrap(),
    }
}

fn a_relay_that_knows_no_sagas_leaves_them_alone_and_says_so(application: &Application, ordered: bool) {
    let home = &application.home;
    let id = application.stage(booking(1));
    home.ok(["stage", "--route", "sagas", "--type", "plain", "--key", "k", "--payload", "{}"]);
    let config =
        if home.path("pillarbox.toml").exists() { home.read("pillarbox.toml") } else { String::new() };
    let order = if ordered { "key" } else { "none" };
    let route = format!("{config}\n[routes.sagas]\nto = \"file:out.ndjson\"\norder = \"{order}\"\n");
    home.write("pillarbox.toml", &route);
    let said = home.ok(["relay", "--drain"]);
    assert!(said.stderr.contains("cannot run sagas; sagas of this route that have not ended: 1"), "{said:?}");
    assert_eq!(said.stderr.matches("this relay cannot run sagas").count(), 1, "once: {said:?}");
    let delivered = home.read("out.ndjson");
    assert_eq!(delivered.lines().count(), 1, "{delivered}");
    assert!(delivered.contains("\"plain\""), "{delivered}");

    let left = || home.ok(["status", "--json"]).json()["sagas"]["left_alone"].clone();
    assert_eq!(left(), json!({}), "nobody is there: that is another warning");
    announce(application, 1, "run");
    assert_eq!(left(), json!({"sagas": 1}));
    let people = home.ok(["status"]);
    assert!(people.stderr.contains("route sagas: 1 saga has not ended"), "{people:?}");
    announce(application, 2, "run sagas");
    assert_eq!(left(), json!({}));

    assert_eq!(application.show(&id)["status"], "running");
    application.work(Answers::default());
    assert_eq!(application.show(&id)["status"], "completed", "nothing of it was lost");
    assert!(!home.ok(["relay", "--drain"]).stderr.contains("this relay cannot run sagas"));
}

#[test]
fn a_relay_by_rows_on_sqlite_leaves_sagas_alone_and_says_so() {
    a_relay_that_knows_no_sagas_leaves_them_alone_and_says_so(&Application::on_sqlite(), false);
}

#[test]
fn a_relay_by_rows_on_postgres_leaves_sagas_alone_and_says_so() {
    a_relay_that_knows_no_sagas_leaves_them_alone_and_says_so(&Application::on_postgres(), false);
}

#[test]
fn a_relay_by_lanes_on_sqlite_leaves_sagas_alone_and_says_so() {
    a_relay_that_knows_no_sagas_leaves_them_alone_and_says_so(&Application::on_sqlite(), true);
}

#[test]
fn a_relay_by_lanes_on_postgres_leaves_sagas_alone_and_says_so() {
    a_relay_that_knows_no_sagas_leaves_them_alone_and_says_so(&Application::on_postgres(), true);
}
