//! Findings of `pillarbox doctor` that take a server of their own, a damaged file, or much that was deleted.

use std::io::{Seek as _, SeekFrom, Write as _};

use sqlx::{Connection, Executor, PgConnection};

use crate::doctor::{Pg, has_finding, has_problem, on};
use crate::home::{Home, eventually, postgres};
use crate::pair::Pair;
use crate::place::wait;
use crate::services::Services;

/// More than the doctor lets pass.
const DELETED: u32 = 60_000;
/// Connections that leave less than a fifth of the server's 197, and enough for the doctor.
const HELD: usize = 162;

#[test]
fn on_postgresql_dead_rows_that_autovacuum_cannot_remove_are_told() {
    let pg = Pg::new();
    pg.execute(&format!(
        "insert into {{s}}.pillarbox_outbox (event_id, route, type, payload_bytes) \
         select gen_random_uuid(), 'r', 't', '\\x7b7d' from generate_series(1, {DELETED})"
    ));
    // As long as this snapshot may read them, no vacuum takes them away.
    let mut holder = wait(PgConnection::connect(&postgres())).unwrap();
    wait(holder.execute("begin isolation level repeatable read; select 1")).unwrap();
    pg.execute("delete from {s}.pillarbox_outbox");
    eventually("the server has counted them", || pg.doctor().stdout.contains("does not keep up"));
    has_finding(&pg.doctor(), "vacuum", "warning", &format!("{DELETED} dead rows"));
    wait(holder.execute("rollback")).unwrap();
}

#[test]
fn on_postgresql_an_abandoned_replication_slot_and_a_standby_are_told() {
    let (pair, home) = Pair::start("postgres-pair");
    home.ok(["migrate"]);
    pair.on_primary("select pg_create_physical_replication_slot('of_the_standby')");
    for sql in [
        "alter system set primary_slot_name = 'of_the_standby'",
        "alter system set hot_standby_feedback = on",
        "alter system set wal_receiver_status_interval = '1s'",
        "select pg_reload_conf()",
    ] {
        pair.on_standby(sql);
    }
    let held = "select count(*) = 1 from pg_replication_slots where active and xmin is not null";
    pair.until_primary(held);
    pair.catch_up();
    // The standby goes, and what it might still read is kept for it.
    pair.cut_off();
    pair.until_primary("select count(*) = 1 from pg_replication_slots where not active");
    let said = home.run(["doctor", "--json"]);
    has_finding(&said, "slots", "warning", "of_the_standby");
    assert!(said.stdout.contains("pg_drop_replication_slot"), "{said:?}");

    let said = on(pair.standby(), "").run(["doctor", "--json"]);
    has_problem(&said, "server", "the server is a standby");
}

#[test]
fn on_postgresql_a_clock_that_is_off_and_connections_that_run_out_are_told() {
    let servers = Services::start("postgres-clock");
    let url = servers.variable("PILLARBOX_TEST_CLOCK_POSTGRES");
    let home = on(&url, "");
    home.ok(["migrate"]);
    std::fs::write(servers.variable("PILLARBOX_TEST_CLOCK"), "+1h").unwrap();
    has_problem(&home.run(["doctor", "--json"]), "clock", "ahead of the clock of this machine");
    let held: Vec<_> = (0..HELD).map(|_| wait(PgConnection::connect(&url)).unwrap()).collect();
    has_finding(&home.run(["doctor", "--json"]), "connections", "warning", "of 197 connections");
    drop(held);
}

#[test]
fn on_sqlite_a_rollback_journal_and_a_file_that_cannot_be_written_are_told() {
    let home = Home::migrated();
    home.sql("pragma journal_mode = delete");
    // Who may write turns the file to its write-ahead log, so that only a reader finds another journal.
    let said = home.run(["doctor", "--json", "--database", "sqlite:pillarbox.db?mode=ro"]);
    has_finding(&said, "journal", "warning", "the journal mode is delete");
    has_problem(&said, "rights", "this process cannot write to the file");
}

#[test]
fn on_sqlite_a_damaged_file_is_told() {
    let home = Home::migrated();
    // A table of an application in the same file, so that everything of ours can still be read.
    home.sql(
        "create table ballast (x); insert into ballast select hex(randomblob(1000)) from json_each('[1, 2, 3, 4, 5, 6]'); \
         pragma wal_checkpoint(truncate)",
    );
    let page = home.numbers("select rootpage from sqlite_master where name = 'ballast'")[0];
    let size = home.numbers("pragma page_size")[0];
    let mut file = std::fs::File::options().write(true).open(home.path("pillarbox.db")).unwrap();
    file.seek(SeekFrom::Start(u64::try_from((page - 1) * size).unwrap())).unwrap();
    file.write_all(&vec![0xff; usize::try_from(size).unwrap()]).unwrap();
    drop(file);
    has_problem(&home.run(["doctor", "--json"]), "file", "the file is damaged");
}

#[test]
fn a_late_route_and_a_paused_one_are_told() {
    let home = Home::migrated();
    home.stage_many("orders", 1);
    home.sql("update pillarbox_outbox set created_at = created_at - 3600000000");
    let late = "the oldest due entry of route orders has waited for";
    has_problem(&home.run(["doctor", "--json"]), "oldest_due", late);
    home.ok(["pause", "orders", "--reason", "moving the broker"]);
    let said = home.run(["doctor", "--json"]);
    has_finding(&said, "paused", "warning", "route orders was paused by");
    assert!(!said.stdout.contains(late), "the pause explains the wait: {said:?}");
}
