//! PostgreSQL: a cluster of its own, made by `initdb` and thrown away at the end.

use std::fs;
use std::path::PathBuf;

use super::ground::{Ground, random, succeeds};
use super::{Facts, Server, Up};
use crate::Result;
use crate::process::{Kind, Running};

/// The superuser and the database of the cluster.
pub(crate) const USER: &str = "pillarbox";

/// Where Debian puts the programs: one directory for each major version, none of them on the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// SIGQUIT is the immediate shutdown: the data is thrown away, so neither a checkpoint nor a wait for clients.
const KIND: Kind = Kind { name: "postgres", stop: "QUIT" };

pub(crate) struct Postgres;

impl Server for Postgres {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn package(&self) -> &'static str {
        "postgresql"
    }

    fn is_installed(&self) -> bool {
        programs().is_ok()
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let programs = programs()?;
        let port = ground.port()?;
        let directory = ground.directory(KIND.name, port)?;
        let data = directory.join("data");

        let mut initdb = ground.command(programs.join("initdb"), "KILL");
        // Durability of the empty cluster does not matter, so no sync here; the server itself runs with fsync.
        initdb.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username", USER]);
        ground.run(initdb.arg("--pgdata").arg(&data))?;
        let conf = data.join("postgresql.conf");
        ground.write(&conf, &configuration(port, &directory.display().to_string()))?;

        let mut server = ground.command(programs.join("postgres"), KIND.stop);
        let running = Running::start(KIND, server.arg("-D").arg(&data), &directory.join("log"))?;
        // Making the database is the question whether the server answers: it fails until it does.
        let mut createdb = ground.command(programs.join("createdb"), "KILL");
        createdb.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER, USER]);
        ground.until_ready(&running, succeeds(createdb))?;
        let variables = vec![("PILLARBOX_TEST_POSTGRES", url(port))];
        Ok(Up { facts: Facts { name: KIND.name, port: Some(port), variables }, processes: vec![running] })
    }
}

/// The URL of a server that trusts everyone. It carries a password all the same, made for this run, so that tests
/// can look for it where it must not appear.
pub(crate) fn url(port: u16) -> String {
    format!("postgres://{USER}:{:016x}@127.0.0.1:{port}/{USER}", random())
}

/// The directory of the newest version's programs.
pub(crate) fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).map_err(|error| format!("{VERSIONS}: {error}"))?;
    versions
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            (programs.join("postgres").exists() && programs.join("initdb").exists())
                .then_some((version, programs))
        })
        .max_by_key(|(version, _)| *version)
        .map(|(_, programs)| programs)
        .ok_or_else(|| format!("no PostgreSQL in {VERSIONS}").into())
}

/// The whole configuration. `fsync` stays on: what we promise about a crash is tested with the real cost.
fn configuration(port: u16, sockets: &str) -> String {
    format!(
        "listen_addresses = '127.0.0.1'\n\
         port = {port}\n\
         unix_socket_directories = '{sockets}'\n\
         max_connections = 200\n\
         max_prepared_transactions = 20\n\
         fsync = on\n\
         timezone = 'UTC'\n\
         log_timezone = 'UTC'\n"
    )
}
