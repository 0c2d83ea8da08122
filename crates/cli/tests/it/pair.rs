//! A PostgreSQL and its standby, for one test that promotes it, behind an address that moves with the primary.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::home::{Home, Running, eventually};
use crate::place::{Wire, wait};

/// How a standby follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// A commit does not wait for it.
    Asynchronously,
    /// A commit waits until the standby has it on disk.
    Synchronously,
}

/// Two servers that end with this.
pub(crate) struct Pair {
    primary: String,
    standby: String,
    wire: Wire,
    servers: Option<Running>,
}

impl Pair {
    /// Starts a pair by its name in `cargo xtask services`, and gives a directory whose configuration reaches the primary.
    pub(crate) fn start(name: &str) -> (Self, Home) {
        let program = std::env::var("PILLARBOX_TEST_SERVICES").expect(
            "PILLARBOX_TEST_SERVICES is not set: run this through `cargo xtask services -- cargo test`",
        );
        let mut command = Command::new(program);
        command.arg(name).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let servers = Running::of(child);
        let mut url = |variable: &str| {
            let wanted = format!("export {variable}='");
            let mut lines = lines.by_ref().map_while(Result::ok);
            let url =
                lines.find_map(|line| Some(line.strip_prefix(&wanted)?.trim_end_matches('\'').to_owned()));
            url.unwrap_or_else(|| panic!("{name} did not start: it says why above"))
        };
        let (primary, standby) = (url("PILLARBOX_TEST_PRIMARY"), url("PILLARBOX_TEST_STANDBY"));
        // The last line: who stops listening before it ends the servers.
        let _ = url("PILLARBOX_TEST_SERVICES");
        let (wire, through) = Wire::to(&primary);
        let home = Home::new();
        home.write("pillarbox.toml", &format!("[database]\nurl = \"{through}\"\n"));
        (Self { primary, standby, wire, servers: Some(servers) }, home)
    }

    /// From now on commits wait for the standby, or do not.
    pub(crate) fn follow(&self, how: Follows) {
        if how == Follows::Synchronously {
            self.on_primary("alter system set synchronous_standby_names = '*'");
            self.on_primary("select pg_reload_conf()");
            let synchronous = "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'";
            eventually("the standby is synchronous", || self.yes(&self.primary, synchronous));
        }
    }

    /// The standby hears of nothing more: what is committed from now on dies with the primary.
    pub(crate) fn cut_off(&self) {
        self.on_standby("alter system set primary_conninfo = ''");
        self.on_standby("select pg_reload_conf()");
        let alone = "select count(*) = 0 from pg_stat_wal_receiver";
        eventually("the standby is alone", || self.yes(&self.standby, alone));
    }

    /// Waits until the standby has all that is committed.
    pub(crate) fn catch_up(&self) {
        let at = self.text(&self.primary, "select pg_current_wal_flush_lsn()::text");
        let there = format!("select pg_last_wal_replay_lsn() >= '{at}'");
        eventually("the standby has caught up", || self.yes(&self.standby, &there));
    }

    /// Ends the primary at once, as a crash does.
    pub(crate) fn kill_primary(&self) {
        let id = self.text(&self.primary, "select split_part(pg_read_file('postmaster.pid'), e'\n', 1)");
        let kill = format!("kill -QUIT {id}");
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        eventually("the primary is gone", || wait(PgConnection::connect(&self.primary)).is_err());
    }

    /// The address leads to the standby from now on.
    pub(crate) fn lead_to_standby(&self) {
        let host = self.standby.rsplit_once('@').unwrap().1.split('/').next().unwrap();
        self.wire.lead_to(host.parse::<SocketAddr>().unwrap());
    }

    /// Makes the standby the primary.
    pub(crate) fn promote(&self) {
        assert!(self.yes(&self.standby, "select pg_promote()"), "the standby is promoted");
    }

    fn on_primary(&self, sql: &str) {
        execute(&self.primary, sql);
    }

    fn on_standby(&self, sql: &str) {
        execute(&self.standby, sql);
    }

    /// The first column of every row that the standby has.
    pub(crate) fn column(&self, sql: &str) -> Vec<String> {
        wait(async {
            let mut connection = PgConnection::connect(&self.standby).await.unwrap();
            let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        })
    }

    fn yes(&self, url: &str, sql: &str) -> bool {
        wait(async {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap().get(0)
        })
    }

    fn text(&self, url: &str, sql: &str) -> String {
        wait(async {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap().get(0)
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Not killed: it takes the servers' directory away.
        let Some(mut servers) = self.servers.take() else { return };
        servers.signal("TERM");
        if std::thread::panicking() {
            std::mem::forget(servers);
        } else {
            eventually("the servers end", || servers.has_ended());
        }
    }
}

/// Runs SQL on a server.
pub(crate) fn execute(url: &str, sql: &str) {
    wait(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    });
}
