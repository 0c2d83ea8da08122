//! A PostgreSQL and a standby that streams from it, for tests that promote the standby: each wants a pair of its own.

use super::ground::{Ground, succeeds};
use super::postgres::{self, Postgres, USER};
use super::{Facts, Server, Up};
use crate::Result;
use crate::process::{Kind, Running};

pub(crate) static DEBIAN: Pair = Pair { name: "postgres-pair", of: &postgres::DEBIAN };
pub(crate) static V14: Pair = Pair { name: "postgres-14-pair", of: &postgres::V14 };
pub(crate) static V16: Pair = Pair { name: "postgres-16-pair", of: &postgres::V16 };
pub(crate) static V17: Pair = Pair { name: "postgres-17-pair", of: &postgres::V17 };
pub(crate) static V18: Pair = Pair { name: "postgres-18-pair", of: &postgres::V18 };

pub(crate) struct Pair {
    name: &'static str,
    of: &'static Postgres,
}

impl Server for Pair {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static [&'static str] {
        self.of.packages()
    }

    fn is_installed(&self) -> bool {
        self.of.is_installed()
    }

    fn needs(&self) -> &'static [&'static str] {
        self.of.needs()
    }

    /// The standby is a copy of a primary without tables, so that it hears of all that a test does by the write-ahead log.
    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let (port, behind) = (ground.port()?, ground.port()?);
        let directory = ground.directory(self.name, port)?;
        let programs = self.of.programs(ground, &directory)?;
        let primary = postgres::start(ground, self.name, &programs, &directory, port)?;

        let copy = ground.directory(self.name, behind)?;
        let data = copy.join("data");
        let mut backup = programs.command(ground, "pg_basebackup", "KILL");
        backup.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER]);
        // It writes into the copy how to reach the primary, and that it is a standby.
        backup.args(["--checkpoint=fast", "--wal-method=stream", "--no-sync", "--write-recovery-conf"]);
        ground.run(backup.arg("--pgdata").arg(&data))?;

        let mut server = programs.command(ground, "postgres", postgres::STOP);
        server.arg("-D").arg(&data).args(["-c", &format!("port={behind}")]);
        server.args(["-c", &format!("unix_socket_directories={}", copy.display())]);
        let kind = Kind { name: self.name, stop: postgres::STOP };
        let standby = Running::start(kind, &mut server, &copy.join("log"))?;
        let mut ask = programs.command(ground, "psql", "KILL");
        ask.args([
            "--host",
            "127.0.0.1",
            "--port",
            &behind.to_string(),
            "--username",
            USER,
            "--dbname",
            USER,
        ]);
        ask.args(["--command", "select 1 / count(*) from pg_stat_wal_receiver where status = 'streaming'"]);
        ask.args(["--set", "ON_ERROR_STOP=1"]);
        ground.until_ready(&standby, succeeds(ask))?;
        let variables = vec![
            ("PILLARBOX_TEST_PRIMARY", postgres::url(port)),
            ("PILLARBOX_TEST_STANDBY", postgres::url(behind)),
        ];
        let facts = Facts { name: self.name, port: Some(port), variables };
        Ok(Up { facts, processes: vec![standby, primary] })
    }
}
