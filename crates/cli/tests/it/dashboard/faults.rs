//! Fault by fault, what each place says where an operator looks: `/readyz`, the doctor, `status --check`, the page and the
//! metrics.

use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

use super::{Page, kill};
use crate::home::{Home, eventually, mysql, postgres};
use crate::many_relays::{on_mysql, on_postgres};
use crate::place::wait;
use crate::saga::{Answers, Application};

/// What the places say of one fault.
struct Told<'a> {
    /// The status of `/readyz`.
    ready: u16,
    /// What `/readyz` and the first line of the page say, and `status --check` if it complains.
    said: &'a [&'a str],
    /// The exit code of `status --check`.
    check: i32,
    /// A check of the doctor that finds a problem, and what it says.
    doctor: (&'a str, &'a str),
    /// Lines of the metrics.
    metrics: &'a [&'a str],
}

impl Told<'_> {
    #[track_caller]
    fn on(&self, home: &Home, page: &Page) {
        eventually("the page has seen it", || {
            self.said.iter().all(|words| page.get("/readyz").body.contains(words))
                && self.metrics.iter().all(|line| page.get("/metrics").body.contains(line))
        });
        page.get("/readyz").says(self.ready, self.said);
        page.get("/").says(200, self.said);
        let checked = home.run(["status", "--check"]);
        if self.check == 0 {
            assert_eq!(checked.code, 0, "{checked:?}");
        } else {
            checked.refused(self.check, self.said);
        }
        let (check, reason) = self.doctor;
        let report = home.run(["doctor", "--json"]);
        assert_eq!(report.code, 3, "{report:?}");
        let report = report.json();
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().any(|finding| {
            finding["check"] == check
                && finding["severity"] == "problem"
                && finding["reason"].as_str().unwrap().contains(reason)
                && !finding["next"].as_str().unwrap().is_empty()
        });
        assert!(found, "{report}");
        eventually("the doctor's view says so", || page.get("/doctor").body.contains(reason));
    }
}

#[test]
fn a_broker_that_is_down_is_told_everywhere() {
    let home = Home::migrated();
    let to = "http://127.0.0.1:9/hook";
    home.write("pillarbox.toml", &format!("[routes.r]\nto = \"{to}\"\nallow_private = true\n"));
    home.stage_many("r", 4);
    let _relay = home.start(["relay"]);
    let page = Page::serve(&home, &[]);
    Told {
        ready: 503,
        said: &["the circuit of r is open", "Connection refused"],
        check: 3,
        doctor: ("circuit", "the destination of route r is down"),
        metrics: &[
            "pillarbox_relays_down{route=\"r\"} 1",
            "pillarbox_entries{route=\"r\",status=\"dead\"} 0",
        ],
    }
    .on(&home, &page);
    page.get("/routes/r").says(200, &["When the destination was down", "until now", "Connection refused"]);
    let outage = &page.get("/api/v1/status").json()["routes"][0]["outages"][0];
    assert!(outage["from"].is_string() && outage["until"].is_null(), "{outage}");
}

/// It is given up and the others go on, so the pod stays ready.
#[test]
fn a_poison_entry_is_told_everywhere() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\n");
    home.stage_many("r", 1);
    kill(&home, "r");
    let page = Page::serve(&home, &[]);
    Told {
        ready: 200,
        said: &["1 dead on route r"],
        check: 3,
        doctor: ("dead", "route r has 1 dead entry"),
        metrics: &["pillarbox_entries{route=\"r\",status=\"dead\"} 1"],
    }
    .on(&home, &page);
    page.get("/dead").says(200, &["failed/timeout"]);
}

#[test]
fn a_dead_head_with_followers_is_told_everywhere() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\n");
    // A relay says what a dead entry does to its key on this route.
    home.ok(["relay", "--drain"]);
    home.ok(["stage", "--route", "r", "--type", "t", "--key", "k", "--payload", "{}"]);
    kill(&home, "r");
    for _ in 0..2 {
        home.ok(["stage", "--route", "r", "--type", "t", "--key", "k", "--payload", "{}"]);
    }
    let _relay = home.start(["relay"]);
    let page = Page::serve(&home, &[]);
    Told {
        ready: 200,
        said: &["1 dead on route r"],
        check: 3,
        doctor: ("blocked", "2"),
        metrics: &["pillarbox_entries{route=\"r\",status=\"blocked\"} 2"],
    }
    .on(&home, &page);
}

#[test]
fn a_stuck_saga_is_told_everywhere() {
    let application = Application::on_sqlite();
    let saga = crate::saga::erasure(1);
    let id = application.stage(saga);
    application.work(Answers { rejects: &["card.redact"], unknown: &[] });
    let home = &application.home;
    let page = Page::serve(home, &[]);
    Told {
        ready: 200,
        said: &["1 saga blocked"],
        check: 3,
        doctor: ("sagas", "1 saga"),
        metrics: &["pillarbox_sagas{status=\"blocked\"} 1"],
    }
    .on(home, &page);
    page.get("/sagas").says(200, &[&id]);
}

/// There is one version of the tables so far, so one behind it means that there are none. A program that is one version
/// behind is the next test.
#[test]
fn tables_of_an_older_version_are_told_everywhere() {
    let home = Home::migrated();
    home.stage_many("r", 1);
    home.sql("delete from pillarbox_schema");
    let page = Page::serve(&home, &[]);
    Told {
        ready: 503,
        said: &["the Pillarbox tables are missing", "pillarbox migrate"],
        check: 4,
        doctor: ("schema", "the Pillarbox tables are missing"),
        metrics: &["pillarbox_store_up 0"],
    }
    .on(&home, &page);
}

/// A relay that was not upgraded with the others: the `pillarbox migrate` of the next version has run.
#[test]
fn tables_of_a_newer_version_are_told_everywhere() {
    let home = Home::migrated();
    home.stage_many("r", 1);
    home.sql("insert into pillarbox_schema (version) values (2)");
    let page = Page::serve(&home, &[]);
    Told {
        ready: 503,
        said: &["the Pillarbox tables have version 2, but this program only knows 1", "upgrade this program"],
        check: 4,
        doctor: ("schema", "the Pillarbox tables have version 2, but this program only knows 1"),
        metrics: &["pillarbox_store_up 0"],
    }
    .on(&home, &page);
    let doctor = home.run(["doctor"]);
    assert!(!doctor.stdout.contains("Run `pillarbox migrate`"), "it would change nothing: {doctor:?}");
    page.get("/doctor").says(200, &["Install the version that upgraded the tables"]);
}

#[test]
fn a_route_that_nobody_relays_is_told_everywhere() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"file:out.ndjson\"\n");
    home.stage_many("r", 2);
    home.sql("update pillarbox_outbox set created_at = created_at - 3600000000");
    let page = Page::serve(&home, &[]);
    Told {
        ready: 503,
        said: &["no relay of r is running"],
        check: 3,
        doctor: ("relays", "no relay delivers route r"),
        metrics: &["pillarbox_relays{route=\"r\"} 0", "pillarbox_entries{route=\"r\",status=\"pending\"} 2"],
    }
    .on(&home, &page);
}

/// It stops nothing by itself, so that only the doctor calls it a problem: at the command line and on the page.
fn an_open_transaction_is_told(home: &Home, holder: &str) {
    let config = home.read("pillarbox.toml");
    home.write("pillarbox.toml", &format!("{config}[admin]\nmax_transaction_age = \"1ms\"\n"));
    let page = Page::serve(home, &[]);
    eventually("the transaction is listed", || home.run(["doctor", "--json"]).code == 3);
    Told {
        ready: 200,
        said: &[],
        check: 0,
        doctor: ("transactions", holder),
        metrics: &["pillarbox_store_up 1", "pillarbox_pool_connections{state=\"max\"}"],
    }
    .on(home, &page);
}

#[test]
fn a_transaction_held_open_on_postgresql_is_told_by_the_doctor() {
    let home = on_postgres();
    let url = format!("{}?application_name=the_holder", postgres());
    let mut holder = wait(PgConnection::connect(&url)).unwrap();
    wait(holder.execute("begin; select pg_current_xact_id()")).unwrap();
    an_open_transaction_is_told(&home, "the_holder");
    wait(holder.execute("rollback")).unwrap();
}

#[test]
fn a_transaction_held_open_on_mysql_is_told_by_the_doctor() {
    let home = on_mysql();
    let mut holder = wait(MySqlConnection::connect(&mysql())).unwrap();
    wait(holder.execute("start transaction with consistent snapshot")).unwrap();
    an_open_transaction_is_told(&home, "held by connection");
    wait(holder.execute("rollback")).unwrap();
}
