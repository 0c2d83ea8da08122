//! `pillarbox bench`: what it measures and says, and how it ends. Never how fast: that is nobody's promise here.

use serde_json::Value;
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

use crate::home::{Home, Said, mongodb, mysql, postgres};
use crate::place::wait;

/// One round with few of everything.
fn bench(home: &Home, more: &[&str]) -> Said {
    home.run(["bench", "--events", "120", "--batch", "40", "--repeat", "1", "--json"].iter().chain(more))
}

/// Asserts that everything was measured.
#[track_caller]
fn measured(said: &Said, database: &str) {
    assert_eq!(said.code, 0, "{said:?}");
    let report = said.json();
    assert_eq!((report["database"].as_str(), report["events"].as_u64()), (Some(database), Some(120)));
    for pointer in [
        "/stage_per_second",
        "/raw_per_second",
        "/rows/per_second",
        "/rows/to_raw",
        "/lanes/per_second",
        "/lanes/to_raw",
        "/commit_to_confirm/p50",
        "/commit_to_confirm/p99",
    ] {
        let value = report.pointer(pointer).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{pointer} is {value:?} in {report}");
    }
}

#[test]
fn a_sqlite_file_of_its_own_is_measured() {
    let home = Home::new();
    measured(&bench(&home, &[]), "sqlite");
    assert!(!home.path("pillarbox.db").exists(), "it measures nobody's own database");
    let shown = home.ok(["bench", "--events", "50", "--repeat", "1"]);
    for part in ["median of 1 round", "raw loop", "relay, lanes", "of the raw loop", "commit to confirmation"]
    {
        assert!(shown.stdout.contains(part), "{part} is not in {}", shown.stdout);
    }
}

#[test]
fn a_named_postgres_is_measured_and_no_table_stays() {
    let (home, server) = (Home::new(), postgres());
    let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    wait(async {
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        connection.execute(sqlx::raw_sql(create)).await.unwrap();
    });
    measured(&bench(&home, &["--database", &url]), "postgres");
    let schemas: i64 = wait(async {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let count = "select count(*) from pg_namespace where nspname = 'pillarbox_bench'";
        sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
    });
    assert_eq!(schemas, 0);
}

#[test]
fn a_named_mysql_is_measured_and_no_table_stays() {
    let (home, server) = (Home::new(), mysql());
    let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    wait(async {
        let mut connection = MySqlConnection::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        connection.execute(sqlx::raw_sql(create)).await.unwrap();
    });
    measured(&bench(&home, &["--database", &url]), "mysql");
    let tables: i64 = wait(async {
        let mut connection = MySqlConnection::connect(&url).await.unwrap();
        let count = "select count(*) from information_schema.tables where table_schema = database()";
        sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
    });
    assert_eq!(tables, 0);
}

#[test]
fn a_named_mongodb_is_measured_and_no_collection_stays() {
    let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
    let (home, url) = (Home::new(), mongodb().replace("/cli?", &format!("/{name}?")));
    measured(&bench(&home, &["--database", &url]), "mongodb");
    let collections = wait(async {
        let client = mongodb::Client::with_uri_str(&url).await.unwrap();
        client.database(&name).list_collection_names().await.unwrap()
    });
    assert_eq!(collections, [""; 0]);
}

#[test]
fn a_destination_gets_what_was_measured() {
    let home = Home::new();
    measured(&bench(&home, &["--to", "file:out.ndjson"]), "sqlite");
    assert_eq!(home.delivered(&["out.ndjson"]).len(), 2 * 120 + 200);
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let home = Home::new();
    bench(&home, &["--to", "stdout:"]).refused(2, &["stdout:"]);
    bench(&home, &["--to", "http://127.0.0.1:9/hook"]).refused(2, &["--to"]);
    // Nothing listens on the discard port.
    bench(&home, &["--to", "redis://127.0.0.1:9/0?stream=s"]).refused(1, &["redis://127.0.0.1:9"]);
}
