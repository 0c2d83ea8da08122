//! A PostgreSQL and its standby, for one test that promotes it, behind an address that moves with the primary.

use std::net::SocketAddr;
use std::process::Command;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::home::{Home, eventually};
use crate::place::{Wire, wait};
use crate::services::Services;

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
    _servers: Services,
}

impl Pair {
    /// Starts a pair by its name in `cargo xtask services`, and gives a directory whose configuration reaches the primary.
    pub(crate) fn start(name: &str) -> (Self, Home) {
        let servers = Services::start(name);
        let (primary, standby) =
            (servers.variable("PILLARBOX_TEST_PRIMARY"), servers.variable("PILLARBOX_TEST_STANDBY"));
        let (wire, through) = Wire::to(&primary);
        let home = Home::new();
        home.write("pillarbox.toml", &format!("[database]\nurl = \"{through}\"\n"));
        (Self { primary, standby, wire, _servers: servers }, home)
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

    /// Waits until this query says yes on the primary.
    pub(crate) fn until_primary(&self, query: &str) {
        eventually(query, || self.yes(&self.primary, query));
    }

    /// The URL of the standby itself.
    pub(crate) fn standby(&self) -> &str {
        &self.standby
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

    pub(crate) fn on_primary(&self, sql: &str) {
        execute(&self.primary, sql);
    }

    pub(crate) fn on_standby(&self, sql: &str) {
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

/// Runs SQL on a server.
pub(crate) fn execute(url: &str, sql: &str) {
    wait(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    });
}
