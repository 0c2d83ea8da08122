//! What is measured and said, and how it ends. Never how fast: that is nobody's promise here.

use serde_json::Value;
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};

use crate::home::{Home, Said, mongodb, mysql, postgres};
use crate::place::{Broker, Place, wait};

/// Few of everything.
const SMALL: [&str; 5] = ["--events", "120", "--batch", "40", "--json"];

/// One round.
fn bench(home: &Home, more: &[&str]) -> Said {
    home.run(SMALL.iter().chain(&["--repeat", "1"]).chain(more))
}

/// Asserts that these figures are there and more than nothing.
#[track_caller]
fn positive(report: &Value, pointers: &[&str]) {
    for pointer in pointers {
        let value = report.pointer(pointer).and_then(Value::as_f64);
        assert!(value.is_some_and(|value| value > 0.0), "{pointer} is {value:?} in {report}");
    }
}

/// A database of its own: the tables of a measurement have fixed names.
fn database() -> String {
    let server = postgres();
    let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
    wait(async {
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        connection.execute(sqlx::raw_sql(create)).await.unwrap();
    });
    let (server, _) = server.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

const DRAINS: [&str; 13] = [
    "/drain/classic/per_second",
    "/drain/lane_kept/per_second",
    "/drain/lane_deleted/per_second",
    "/drain/rows/kept/bare_per_second",
    "/drain/rows/kept/relay_per_second",
    "/drain/rows/deleted/relay_to_bare",
    "/drain/rows/deleted/relay_to_classic",
    "/drain/lanes/kept/bare_per_second",
    "/drain/lanes/kept/relay_per_second",
    "/drain/lanes/kept/relay_to_lane",
    "/drain/lanes/deleted/bare_per_second",
    "/drain/lanes/deleted/relay_per_second",
    "/drain/lanes/deleted/relay_to_classic",
];

const OPTIONAL: [&str; 13] = [
    "/growth/settled/rows/grown_per_second",
    "/growth/settled/lanes/ratio",
    "/growth/pending/lanes/grown_per_second",
    "/held/classic/per_second/3",
    "/held/rows_deleted/per_second/0",
    "/held/lanes_kept/last_to_first",
    "/held/lanes_deleted/per_second/3",
    "/latency/writer_alone/p99",
    "/latency/rows/writer/p50",
    "/latency/rows/writer_p99_to_alone",
    "/latency/lanes/commit_to_confirm/p99",
    "/memory/rows_peak_bytes",
    "/memory/lanes_peak_bytes",
];

const ALL: [&str; 10] = [
    "--transactions",
    "20",
    "--held",
    "--latency",
    "20",
    "--rate",
    "500",
    "--settled=300",
    "--pending=600",
    "--quiet",
];

#[test]
fn everything_is_measured_on_sqlite_in_a_file_of_its_own() {
    let home = Home::new();
    let said = bench(&home, &[ALL.as_slice(), &["--writers", "2"]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let report = said.json();
    assert_eq!((report["database"].as_str(), report["events"].as_u64()), (Some("sqlite"), Some(120)));
    positive(&report, &DRAINS);
    positive(&report, &OPTIONAL);
    positive(
        &report,
        &[
            "/writers/in_line/per_second",
            "/writers/in_line/transaction/p99",
            "/writers/polling/commit_to_confirm/p50",
            "/writers/polling_p99_to_in_line",
            "/writers/in_line_to_polling",
            "/stage/ratio",
            "/stage/row_ratio",
            "/stage/orders_row_ratio",
            "/stage/orders_ratio",
            "/stage/bulk_per_second",
        ],
    );
    assert_eq!(report.pointer("/drain/lanes/kept/cost"), None, "there is no server");
    assert!(!home.path("pillarbox.db").exists(), "it measures nobody's own database");
}

#[test]
fn everything_is_measured_on_postgres_with_its_cost_and_no_table_stays() {
    let (home, url) = (Home::new(), database());
    let said = bench(&home, &[ALL.as_slice(), &["--database", &url]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let report = said.json();
    positive(&report, &DRAINS);
    positive(&report, &OPTIONAL);
    positive(
        &report,
        &[
            "/drain/classic/cost/wal_bytes",
            "/drain/lanes/deleted/cost/wal_bytes",
            "/held/lanes_deleted_beside_staging/per_second/0",
        ],
    );
    let schemas: i64 = wait(async {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let count = "select count(*) from pg_namespace where nspname = 'pillarbox_bench'";
        sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
    });
    assert_eq!(schemas, 0);
    bench(&home, &["--writers", "2", "--database", &url]).refused(2, &["--writers works on SQLite only"]);
}

/// The same on MariaDB or MySQL.
fn mysql_database() -> String {
    let server = mysql();
    let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
    wait(async {
        let mut connection = MySqlConnection::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        connection.execute(sqlx::raw_sql(create)).await.unwrap();
    });
    let (server, _) = server.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

/// The same on MongoDB, which makes a database when it is first written to.
fn mongodb_database() -> String {
    mongodb().replace("/cli?", &format!("/bench_{}?", uuid::Uuid::new_v4().simple()))
}

/// Drains, on a server that tells nothing of their cost.
#[track_caller]
fn drained(url: &str, database: &str) {
    let home = Home::new();
    let said = bench(&home, &["--only", "drain", "--database", url]);
    assert_eq!(said.code, 0, "{said:?}");
    let report = said.json();
    assert_eq!(report["database"], database);
    positive(&report, &DRAINS);
    assert_eq!(report.pointer("/drain/lanes/kept/cost"), None, "the server does not tell");
}

#[test]
fn drains_are_measured_on_mysql() {
    drained(&mysql_database(), "mysql");
}

#[test]
fn drains_are_measured_on_mongodb_and_nothing_else_is() {
    let (home, url) = (Home::new(), mongodb_database());
    drained(&url, "mongodb");
    for more in [&[][..], &["--only", "drain", "--held"], &["--sagas", "100"], &["--only", "stage"]] {
        let said = home.run(more.iter().chain(&["--database", &url]));
        said.refused(2, &["On MongoDB give --only drain"]);
    }
}

#[test]
fn people_get_tables_and_only_what_they_asked_for() {
    let home = Home::new();
    let shown = home.ok(["--repeat", "1", "--events", "50", "--only", "drain", "--held", "--latency", "5"]);
    for part in [
        "median of 1 round",
        "drain, raw loop, classic",
        "drain, lanes, deleted",
        "of the raw lane",
        "beside an open transaction",
        "lanes, kept",
        "5 events, 200 a second",
        "commit to confirmation, lanes",
    ] {
        assert!(shown.stdout.contains(part), "{part} is not in {}", shown.stdout);
    }
    assert!(!shown.stdout.contains("staging") && !shown.stdout.contains("memory"), "{}", shown.stdout);
    let only = bench(&home, &["--only", "memory"]).json();
    assert!(only["stage"].is_null() && only["drain"].is_null() && only["memory"].is_object(), "{only}");
}

const RELAYED: [&str; 14] = [
    "/relay/rows/client_per_second",
    "/relay/lanes/client_per_second",
    "/relay/lanes_deleted/client_per_second",
    "/relay/rows/drain_per_second",
    "/relay/rows/both_per_second",
    "/relay/rows/relay_per_second",
    "/relay/rows/relay_to_limit",
    "/relay/rows/relay_to_both",
    "/relay/lanes/relay_per_second",
    "/relay/lanes/relay_to_limit",
    "/relay/lanes/relay_to_both",
    "/relay/lanes_deleted/relay_per_second",
    "/relay/lanes_deleted/relay_to_limit",
    "/relay/lanes_deleted/relay_to_both",
];

#[test]
fn a_file_is_measured_and_gets_what_was_sent() {
    let home = Home::new();
    let said = bench(&home, &["--to", "file:out.ndjson", "--latency", "10", "--rate", "500"]);
    assert_eq!(said.code, 0, "{said:?}");
    positive(&said.json(), &RELAYED);
    positive(&said.json(), &["/latency/rows/commit_to_confirm/p50", "/latency/lanes/commit_to_confirm/p50"]);
    // A file takes many entries of a key together.
    positive(&said.json(), &["/relay/hot_key/per_second", "/relay/hot_key/to_all_keys"]);
    positive(&said.json(), &["/relay/lanes/relay_cpu_micros", "/relay/lanes/relay_cpu_to_parts"]);
    // A little first, then three times the client, the client beside a drain and the relay, one key, then both relays of
    // the latency.
    assert_eq!(home.delivered(&["out.ndjson"]).len(), 40 + 10 * 120 + 2 * 10);
}

#[test]
fn the_page_is_measured_over_a_large_outbox_on_both_databases() {
    for database in [None, Some(database())] {
        let home = Home::new();
        let more: Vec<&str> = database.iter().flat_map(|url| ["--database", url]).collect();
        let said = bench(&home, &[&["--page", "2000"], &more[..]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        let report = said.json();
        let views = report["views"].as_array().unwrap();
        for path in [
            "/entries?status=dead",
            "/entries?tenant=t-7",
            "/entries?since=1h",
            "/routes/bench?lanes",
            "/sagas/{id}",
            "/relays",
            "/inbox",
            "/audit",
            "/doctor",
        ] {
            assert!(views.iter().any(|view| view["path"] == path), "{path}: {report}");
        }
        let is_second = |view: &Value| view["path"].as_str().unwrap().starts_with("/entries?cursor=");
        assert!(views.iter().any(is_second), "{report}");
        for view in views {
            positive(view, &["/first_byte_ms", "/longest_ms"]);
        }
        positive(&report, &["/beside/watched_to_alone", "/beside/ten_to_one", "/idle/memory_bytes"]);
    }
}

#[track_caller]
fn consumed(broker: Broker, database: &[&str]) {
    let (home, place) = (Home::new(), Place::new(broker));
    let (to, from) = (place.to(&place.server), place.from(&place.server));
    // The second round begins with what the first left behind.
    let said = home.run(SMALL.iter().chain(&["--repeat", "2", "--to", &to, "--from", &from]).chain(database));
    assert_eq!(said.code, 0, "{said:?}");
    positive(&said.json(), &RELAYED);
    positive(
        &said.json(),
        &["/consumer/without_inbox_per_second", "/consumer/with_inbox_per_second", "/consumer/inbox_ratio"],
    );
}

#[test]
fn what_was_sent_to_redis_is_consumed_again() {
    consumed(Broker::Redis, &[]);
}

#[test]
fn what_was_sent_to_nats_is_consumed_again() {
    consumed(Broker::Nats, &[]);
}

#[test]
fn what_was_sent_to_kafka_is_consumed_again() {
    consumed(Broker::Kafka, &[]);
}

#[test]
fn what_was_sent_to_mqtt_is_consumed_again() {
    consumed(Broker::Mqtt, &[]);
}

#[test]
fn what_was_sent_to_rabbitmq_is_consumed_again() {
    consumed(Broker::RabbitMq, &["--database", &database()]);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_touched() {
    let home = Home::new();
    for (arguments, named) in [
        (["--to", "stdout:"].as_slice(), "stdout:"),
        (&["--from", "redis://h/0?stream=s&group=g"], "--to"),
        (&["--to", "file:out.ndjson", "--from", "ftp://h/x"], "--from"),
        (&["--to", "file:out.ndjson", "--held"], "--held"),
        (&["--only", "everything"], "everything"),
        (&["--only", "growth"], "--only growth needs --settled N or --pending N"),
        (&["--only", "held"], "--only held needs --held"),
        (&["--only", "latency"], "--only latency needs --latency N"),
        (&["--only", "writers"], "--only writers needs --writers N"),
        (&["--rate", "0"], "--rate"),
    ] {
        bench(&home, arguments).refused(2, &[named]);
    }
    assert!(!home.path("out.ndjson").exists());
}

#[test]
fn a_destination_that_is_not_there_is_told_by_name() {
    // Nothing listens on the discard port.
    let home = Home::new();
    bench(&home, &["--to", "redis://127.0.0.1:9/0?stream=s"]).refused(1, &["redis://127.0.0.1:9"]);
}

#[test]
fn the_bench_of_sagas_prints_ratios_to_plain_entries() {
    let home = Home::new();
    let bench = ["--sagas", "100", "--repeat", "1"];
    let json = home.ok(bench.iter().chain(&["--json"])).json();
    for name in ["entries_per_second", "group_to_entries", "ordered_to_entries"] {
        assert!(json[name].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {json}");
    }
    let people = home.ok(bench);
    assert!(people.stdout.contains("sagas, steps in order"), "{people:?}");
    home.run(["--sagas", "1", "--events", "1"]).refused(2, &["--sagas"]);
}
