//! Eight relays at once on one database.

use crate::home::{Home, Running, mongodb, mysql, postgres};

fn eight_drains_deliver_everything_once(home: &Home) {
    let ids = home.stage_many("r", 20_000);
    let files: Vec<String> = (0..8).map(|n| format!("out-{n}.ndjson")).collect();
    let running: Vec<Running> = files
        .iter()
        .map(|file| {
            home.start(["relay", "--drain", "--json", "--route", "r", "--to", &format!("file:{file}")])
        })
        .collect();
    let mut claimed = 0;
    for said in running.into_iter().map(Running::end) {
        assert_eq!(said.code, 0, "{said:?}");
        let tally = said.json();
        assert_eq!(tally["claimed"], tally["delivered"], "{said:?}");
        claimed += tally["claimed"].as_u64().unwrap();
    }
    assert_eq!(claimed, 20_000);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let delivered = home.delivered(&files);
    assert_eq!(delivered.len(), ids.len(), "no loss");
    assert!(ids.iter().all(|id| delivered.get(id) == Some(&1)), "no duplicate");
    assert_eq!(home.totals()["delivered"], 20_000);
}

#[test]
fn eight_drains_on_one_sqlite_file_deliver_20000_entries_once() {
    eight_drains_deliver_everything_once(&Home::migrated());
}

/// A home whose configuration names the PostgreSQL of the tests, with a schema of its own.
pub(crate) fn on_postgres() -> Home {
    let home = Home::new();
    let schema = format!("cli_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\nschema = \"{schema}\"\n", postgres()));
    home.ok(["migrate", "--create-schema"]);
    home
}

/// A home whose configuration names the MariaDB or MySQL of the tests, with tables of its own.
pub(crate) fn on_mysql() -> Home {
    let home = Home::new();
    let prefix = format!("cli_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\nprefix = \"{prefix}\"\n", mysql()));
    home.ok(["migrate"]);
    home
}

/// A home whose configuration names the MongoDB of the tests, with collections of its own.
pub(crate) fn on_mongodb() -> Home {
    let home = Home::new();
    let prefix = format!("cli_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\nprefix = \"{prefix}\"\n", mongodb()));
    home.ok(["migrate"]);
    home
}

#[test]
fn eight_drains_on_one_mongodb_deliver_20000_entries_once() {
    eight_drains_deliver_everything_once(&on_mongodb());
}

#[test]
fn the_commands_of_an_operator_work_on_mongodb() {
    the_commands_of_an_operator_work(&on_mongodb());
}

#[test]
fn eight_drains_on_one_mysql_deliver_20000_entries_once() {
    eight_drains_deliver_everything_once(&on_mysql());
}

#[test]
fn eight_drains_on_one_postgres_deliver_20000_entries_once() {
    eight_drains_deliver_everything_once(&on_postgres());
}

#[test]
fn the_commands_of_an_operator_work_on_mysql() {
    the_commands_of_an_operator_work(&on_mysql());
}

/// The same server by the other name of its kind, and the same tables.
#[test]
fn a_mariadb_url_means_what_a_mysql_url_means() {
    let home = on_mysql();
    let usual = home.read("pillarbox.toml");
    let other = usual.replace("\"mysql://", "\"mariadb://");
    assert_ne!(usual, other);
    home.write("pillarbox.toml", &other);
    the_commands_of_an_operator_work(&home);
    home.ok(["stage", "--route", "r", "--type", "t", "--payload", "{}"]);
    home.write("pillarbox.toml", &usual);
    assert_eq!(home.ok(["list", "--json"]).lines().len(), 1);
}

#[test]
fn the_commands_of_an_operator_work_on_postgres() {
    the_commands_of_an_operator_work(&on_postgres());
}

fn the_commands_of_an_operator_work(home: &Home) {
    let said = home.ok([
        "stage",
        "--route",
        "r",
        "--type",
        "t",
        "--payload",
        r#"{"a":"\\x41"}"#,
        "--max-attempts",
        "1",
        "--json",
    ]);
    let id = said.json()["event_id"].as_str().unwrap().to_owned();
    assert_eq!(home.ok(["status", "--json"]).json()["mode"], "direct");
    assert_eq!(home.ok(["list", "--json"]).lines()[0]["payload"], serde_json::json!({"a": "\\x41"}));
    assert_eq!(
        home.ok(["relay", "--drain", "--route", "r", "--to", "null:", "--json"]).json()["delivered"],
        1
    );
    assert_eq!(home.ok(["show", &id, "--json"]).json()["status"], "delivered");
    assert_eq!(home.ok(["purge", "--older-than", "0s", "--yes", "--json"]).json()["purged"], 1);
    assert_eq!(home.ok(["reap", "--json"]).json()["stale"], 0);
    assert!(home.ok(["config", "show"]).stdout.contains("***"));
}

#[test]
fn the_demo_works_on_every_server() {
    for url in [postgres(), mysql()] {
        let said = Home::new().ok(["demo", "--database", &url, "--events", "300", "--json"]);
        assert_eq!(said.json()["ok"], true);
    }
}

#[test]
fn the_demo_works_on_mongodb() {
    let said = Home::new().ok(["demo", "--database", &mongodb(), "--events", "300", "--json"]);
    assert_eq!(said.json()["ok"], true);
}

#[test]
fn migrate_names_where_it_works_and_creates_no_misspelt_schema() {
    let home = Home::new();
    let schema = format!("cli_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{}\"\nschema = \"{schema}\"\n", postgres()));
    for command in [&["migrate"][..], &["migrate", "--plan"]] {
        let said = home.run(command);
        said.refused(4, &[&format!("the schema {schema} does not exist"), "--create-schema"]);
    }
    let plan = home.ok(["migrate", "--plan", "--create-schema"]).stdout;
    assert!(plan.contains("create schema"), "{plan}");
    let made = home.ok(["migrate", "--create-schema"]).stdout;
    assert!(made.contains(&format!("schema {schema}, version 1")), "{made}");
    let again = home.ok(["migrate", "--json"]).json();
    assert_eq!((&again["schema"], &again["from"]), (&schema.into(), &1.into()));
    assert!(again["database"].as_str().unwrap().starts_with("postgres://"), "{again}");
}
