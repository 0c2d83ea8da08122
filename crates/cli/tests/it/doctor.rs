//! `pillarbox doctor` on real servers: for each finding, the state that produces it.

use serde_json::Value;
use sqlx::{Connection, Executor, MySqlConnection, PgConnection, SqliteConnection};
use tokio::runtime::Runtime;

use crate::home::{Home, Said, eventually, mongodb, mysql, postgres};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A finding of this check that is not ok.
fn found<'a>(report: &'a Value, check: &str) -> Option<&'a Value> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check && finding["severity"] != "ok")
}

#[track_caller]
pub(crate) fn has_problem(said: &Said, check: &str, named: &str) {
    assert_eq!(said.code, 3, "{said:?}");
    has_finding(said, check, "problem", named);
}

#[track_caller]
pub(crate) fn has_finding(said: &Said, check: &str, severity: &str, named: &str) {
    let report = said.json();
    let finding = found(&report, check).unwrap_or_else(|| panic!("no finding {check}: {said:?}"));
    assert_eq!(finding["severity"], severity, "{said:?}");
    assert!(finding["reason"].as_str().unwrap().contains(named), "{named:?} is not in {finding}");
    assert!(!finding["next"].as_str().unwrap().is_empty(), "{finding}");
}

#[track_caller]
fn is_well(said: &Said, checks: &[&str]) {
    let report = said.json();
    for check in checks {
        let findings = report["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["check"] == *check), "{check} was not made: {said:?}");
        assert!(found(&report, check).is_none(), "{said:?}");
    }
}

/// A home whose database is on a server, in tables of its own.
pub(crate) fn on(url: &str, tables: &str) -> Home {
    let home = Home::new();
    home.write("pillarbox.toml", &format!("[database]\nurl = \"{url}\"\n{tables}"));
    home
}

fn unique(word: &str) -> String {
    format!("{word}_{:x}", uuid::Uuid::now_v7().as_u128() & 0xffff_ffff_ffff)
}

/// On PostgreSQL, in a schema of its own.
pub(crate) struct Pg {
    pub(crate) home: Home,
    schema: String,
}

/// A home whose role may only read the tables of another one.
pub(crate) struct Reader<'a> {
    pub(crate) home: Home,
    pub(crate) role: String,
    pg: &'a Pg,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.pg.execute(&format!("drop owned by {0}; drop role {0}", self.role));
        }
    }
}

impl Pg {
    pub(crate) fn new() -> Self {
        let schema = unique("doctor");
        let home = on(&postgres(), &format!("schema = \"{schema}\"\n"));
        home.ok(["migrate", "--create-schema"]);
        Self { home, schema }
    }

    /// A home that reaches the same tables through another address.
    pub(crate) fn through(&self, url: &str) -> Home {
        on(url, &format!("schema = \"{}\"\n", self.schema))
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        let role = unique("reader");
        self.execute(&format!(
            "create role {role} login; grant usage on schema {{s}} to {role}; \
             grant select on all tables in schema {{s}} to {role}"
        ));
        let (before, after) = postgres().split_once("//").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let host = after.rsplit_once('@').map_or(after.clone(), |(_, host)| host.to_owned());
        let home = on(&format!("{before}//{role}@{host}"), &format!("schema = \"{}\"\n", self.schema));
        Reader { home, role, pg: self }
    }

    pub(crate) fn execute(&self, sql: &str) {
        let sql = sql.replace("{s}", &self.schema);
        runtime().block_on(async {
            let mut connection = PgConnection::connect(&postgres()).await.unwrap();
            connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    pub(crate) fn doctor(&self) -> Said {
        self.home.run(["doctor", "--json", "--max-transaction-age", "1h"])
    }
}

impl Drop for Pg {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.execute("drop schema {s} cascade");
        }
    }
}

#[test]
fn on_postgresql_every_check_is_made_and_a_fresh_database_is_well() {
    let pg = Pg::new();
    let said = pg.doctor();
    assert_eq!(said.code, 0, "{said:?}");
    let checks = [
        "schema",
        "clock",
        "connections",
        "transactions",
        "sagas",
        "pooler",
        "server",
        "rights",
        "indexes",
        "vacuum",
        "plans",
    ];
    is_well(&said, &checks);
    assert_eq!((said.json()["healthy"].clone(), said.json()["problems"].clone()), (true.into(), 0.into()));
}

#[test]
fn on_postgresql_a_transaction_held_open_is_told_with_its_holder() {
    let pg = Pg::new();
    let runtime = runtime();
    runtime.block_on(async {
        let url = format!("{}?application_name=the_holder", postgres());
        let mut holder = PgConnection::connect(&url).await.unwrap();
        holder.execute("begin; select pg_current_xact_id()").await.unwrap();
        let said = pg.home.run(["doctor", "--json", "--max-transaction-age", "1ms"]);
        let report = said.json();
        let findings = report["findings"].as_array().unwrap();
        let told = findings.iter().any(|finding| {
            finding["check"] == "transactions" && finding["reason"].as_str().unwrap().contains("the_holder")
        });
        assert!(told && said.code == 3, "{said:?}");
        holder.execute("rollback").await.unwrap();
    });
}

#[test]
fn on_postgresql_an_invalid_index_is_told() {
    let pg = Pg::new();
    pg.execute(
        "update pg_index set indisvalid = false where indexrelid = '{s}.pillarbox_outbox_open'::regclass",
    );
    let said = pg.doctor();
    has_problem(&said, "indexes", "pillarbox_outbox_open is invalid");
    has_problem(&said, "plans", "does not use the index pillarbox_outbox_open");
}

#[test]
fn on_postgresql_autovacuum_that_is_off_is_told() {
    let pg = Pg::new();
    pg.execute("alter table {s}.pillarbox_outbox set (autovacuum_enabled = off)");
    has_problem(&pg.doctor(), "vacuum", "autovacuum is off");
}

#[test]
fn on_postgresql_a_role_without_rights_is_told() {
    let pg = Pg::new();
    let reader = pg.reader();
    let said = reader.home.run(["doctor", "--json"]);
    has_problem(&said, "rights", &format!("the role {} lacks", reader.role));
}

#[test]
fn on_sqlite_every_check_is_made_and_a_fresh_file_is_well() {
    let home = Home::migrated();
    let said = home.ok(["doctor", "--json"]);
    is_well(&said, &["schema", "clock", "transactions", "journal", "write_lock", "file", "plans"]);
    let told = home.ok(["doctor"]);
    assert!(told.stdout.contains("write_lock") && told.stderr.contains("0 problems"), "{told:?}");
}

#[test]
fn on_sqlite_a_missing_index_is_told_by_the_tables_and_by_the_plans() {
    let home = Home::migrated();
    home.sql("drop index pillarbox_outbox_ready; drop index pillarbox_outbox_due");
    let said = home.run(["doctor", "--json"]);
    has_problem(&said, "schema", "pillarbox_outbox_ready");
    has_problem(&said, "plans", "does not use the index pillarbox_outbox_ready");
}

#[test]
fn on_sqlite_a_writer_that_does_not_end_is_told() {
    let home = Home::migrated();
    runtime().block_on(async {
        let url = format!("sqlite://{}", home.path("pillarbox.db").display());
        let mut holder = SqliteConnection::connect(&url).await.unwrap();
        holder.execute("begin immediate").await.unwrap();
        has_problem(&home.run(["doctor", "--json"]), "write_lock", "holds the write lock");
        holder.execute("rollback").await.unwrap();
    });
}

#[test]
fn tables_that_are_missing_are_a_problem_and_not_an_error() {
    let home = Home::new();
    home.write("pillarbox.db", "");
    has_problem(&home.run(["doctor", "--json"]), "schema", "");
}

#[test]
fn a_route_that_nobody_relays_and_a_dead_entry_are_told() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.orders]\nto = \"null:\"\n");
    home.stage_many("orders", 2);
    let said = home.run(["doctor", "--json"]);
    has_problem(&said, "relays", "no relay delivers route orders; 2 entries wait");
    home.sql("update pillarbox_outbox set status = 'dead' where seq = 1");
    has_problem(&home.run(["doctor", "--json"]), "dead", "route orders has 1 dead entry");
}

#[test]
fn a_destination_that_is_down_is_told_by_the_probe_and_by_the_circuit() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.orders]\nto = \"nats://user:canary@127.0.0.1:1/orders\"\n");
    home.stage_many("orders", 1);
    let mut relay = home.start_logged("log", ["relay"]);
    eventually("the circuit is open", || {
        let status = home.ok(["status", "--json"]).json();
        status["relays"].as_array().unwrap().iter().any(|relay| relay["circuit"] != "closed")
    });
    let said = home.run(["doctor", "--json"]);
    has_problem(&said, "destination", "cannot be reached");
    has_problem(&said, "circuit", "the destination of route orders is down");
    assert!(!said.stdout.contains("canary") && !said.stderr.contains("canary"), "{said:?}");
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
}

#[test]
fn an_inbox_that_forgets_too_soon_is_told() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.orders]\nto = \"null:\"\n[retention]\ninbox = \"1m\"\n");
    has_problem(&home.run(["doctor", "--json"]), "retention", "the inbox remembers events for 1m");
}

#[test]
fn on_mysql_a_transaction_held_open_is_told_with_its_holder() {
    let home = on(&mysql(), &format!("prefix = \"{}\"\n", unique("d")));
    home.ok(["migrate"]);
    let well = home.run(["doctor", "--json", "--max-transaction-age", "1h"]);
    is_well(&well, &["schema", "clock", "connections", "server", "rights", "transactions"]);
    runtime().block_on(async {
        let mut holder = MySqlConnection::connect(&mysql()).await.unwrap();
        holder.execute("start transaction with consistent snapshot").await.unwrap();
        let doctor = || home.run(["doctor", "--json", "--max-transaction-age", "0s"]);
        // The server lists transactions from a copy that it renews only when nobody has read it for 0.1 s.
        eventually("the transaction is listed", || found(&doctor().json(), "transactions").is_some());
        has_problem(&doctor(), "transactions", "held by connection");
        holder.execute("rollback").await.unwrap();
    });
}

#[test]
fn on_mongodb_a_transaction_held_open_is_told_with_its_holder() {
    let home = on(&mongodb(), &format!("prefix = \"{}\"\n", unique("d")));
    home.ok(["migrate"]);
    let well = home.run(["doctor", "--json", "--max-transaction-age", "1h"]);
    is_well(&well, &["schema", "clock", "connections", "replica_set", "rights", "transactions"]);
    runtime().block_on(async {
        let client = mongodb::Client::with_uri_str(&mongodb()).await.unwrap();
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let notes = client.database("cli").collection::<mongodb::bson::Document>("doctor_notes");
        notes.insert_one(mongodb::bson::doc! { "n": 1 }).session(&mut session).await.unwrap();
        let said = home.run(["doctor", "--json", "--max-transaction-age", "0s"]);
        has_problem(&said, "transactions", "held by client");
        session.abort_transaction().await.unwrap();
    });
}

#[test]
fn keys_on_a_route_that_nobody_gave_an_order_are_told() {
    let home = Home::new();
    let route = |order: &str| {
        home.write(
            "pillarbox.toml",
            &format!("[routes.orders]\nto = \"nats://127.0.0.1:1/orders\"\n{order}"),
        );
    };
    let order = || {
        let report = home.run(["doctor", "--json"]).json();
        found(&report, "order").map(|finding| finding["reason"].as_str().unwrap().to_owned())
    };
    route("");
    home.ok(["migrate"]);
    home.ok(["stage", "--route", "orders", "--type", "order.placed", "--payload", "{}"]);
    assert_eq!(order(), None, "no entry has a key");
    home.ok(["stage", "--route", "orders", "--type", "order.placed", "--payload", "{}", "--key", "o-1"]);
    assert!(order().is_some_and(|reason| reason.contains("route orders have keys")));
    for chosen in ["order = \"none\"", "order = \"key\""] {
        route(chosen);
        assert_eq!(order(), None, "{chosen}");
    }
    home.write("pillarbox.toml", "[routes.orders]\nto = \"sqs://eu-west-1/orders\"\norder = \"key\"");
    assert!(order().is_some_and(|reason| reason.contains("standard queue")));
}
