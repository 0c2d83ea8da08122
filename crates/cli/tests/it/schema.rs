//! Tables that are missing, older, newer or damaged.

use crate::home::Home;

const COMMANDS: [&[&str]; 9] = [
    &["stage", "--route", "r", "--type", "t", "--payload", "1"],
    &["relay", "--drain", "--route", "r", "--to", "null:"],
    &["relay", "--route", "r", "--to", "null:"],
    &["status"],
    &["list"],
    &["show", "0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e"],
    &["requeue", "--status", "dead"],
    &["reap"],
    &["purge", "--yes"],
];

fn every_command_exits_4(home: &Home, with: &[&str]) {
    for command in COMMANDS {
        home.run(command).refused(4, with);
    }
}

#[test]
fn a_file_that_is_not_there_is_exit_4_and_stays_away() {
    let home = Home::new();
    every_command_exits_4(&home, &["pillarbox.db", "does not exist yet", "pillarbox migrate"]);
    home.ok(["migrate", "--plan"]);
    assert!(!home.path("pillarbox.db").exists());
}

#[test]
fn missing_tables_name_the_command_that_creates_them() {
    let home = Home::new();
    home.write("pillarbox.db", "");
    every_command_exits_4(&home, &["missing", "pillarbox migrate"]);
}

#[test]
fn newer_tables_are_not_touched() {
    let home = Home::migrated();
    home.sql("insert into pillarbox_schema (version) values (99)");
    every_command_exits_4(&home, &["version 99", "upgrade this program"]);
}

#[test]
fn a_missing_column_is_named() {
    let home = Home::migrated();
    home.sql("alter table pillarbox_outbox drop column causation_id");
    every_command_exits_4(&home, &["damaged", "causation_id", "pillarbox migrate --plan"]);
}

#[test]
fn migrate_is_idempotent_and_the_plan_is_sql() {
    let home = Home::new();
    let plan = home.ok(["migrate", "--plan"]);
    assert!(plan.stdout.contains("create table"), "{plan:?}");
    assert_eq!(home.ok(["migrate", "--json"]).json()["from"], 0);
    let again = home.ok(["migrate", "--json"]).json();
    assert_eq!(again["from"], again["to"]);
    let plan = home.ok(["migrate", "--plan"]);
    assert_eq!((plan.stdout.as_str(), plan.stderr.contains("nothing to do")), ("", true), "{plan:?}");
}

#[test]
fn eight_migrations_at_once_are_one() {
    let home = Home::new();
    let running: Vec<_> = (0..8).map(|_| home.start(["migrate", "--json"])).collect();
    let created = running.into_iter().map(crate::home::Running::end).filter(|said| {
        assert_eq!(said.code, 0, "{said:?}");
        said.json()["from"] == 0
    });
    assert_eq!(created.count(), 1);
}

#[test]
fn a_plain_insert_of_three_columns_stages() {
    let home = Home::migrated();
    home.sql(
        "insert into pillarbox_outbox (route, type, payload) values ('r', 'order.placed', '{\"id\":1}')",
    );
    home.ok(["relay", "--drain", "--route", "r", "--to", "file:out.ndjson"]);
    let event: serde_json::Value = serde_json::from_str(&home.read("out.ndjson")).unwrap();
    assert_eq!((&event["type"], &event["data"]), (&"order.placed".into(), &serde_json::json!({"id": 1})));
}
