//! PostgreSQL: a cluster of its own, made by `initdb` and thrown away at the end. Debian's version, and the other supported
//! ones from PyPI, each in the place of Debian's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ground::{Ground, random, succeeds};
use super::{Facts, Server, Up, python, wheel};
use crate::Result;
use crate::process::{Kind, Running};

/// The superuser and the database of the cluster.
pub(crate) const USER: &str = "pillarbox";

/// What every version answers to where others need a PostgreSQL.
pub(crate) const ROLE: &str = "postgres";

/// Where Debian puts the programs: one directory for each major version, none of them on the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// SIGQUIT is the immediate shutdown: the data is thrown away, so neither a checkpoint nor a wait for clients.
pub(super) const STOP: &str = "QUIT";

pub(crate) static DEBIAN: Postgres = Postgres { name: ROLE, release: None };
/// The versions besides Debian's that the support table names.
pub(crate) static V14: Postgres = Postgres { name: "postgres-14", release: Some(&wheel::V14) };
pub(crate) static V16: Postgres = Postgres { name: "postgres-16", release: Some(&wheel::V16) };
pub(crate) static V17: Postgres = Postgres { name: "postgres-17", release: Some(&wheel::V17) };
pub(crate) static V18: Postgres = Postgres { name: "postgres-18", release: Some(&wheel::V18) };

pub(crate) struct Postgres {
    name: &'static str,
    /// Debian's if there is none.
    release: Option<&'static wheel::Release>,
}

impl Server for Postgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> &'static str {
        ROLE
    }

    // The other versions use libraries that come with it.
    fn packages(&self) -> &'static [&'static str] {
        &["postgresql"]
    }

    fn is_installed(&self) -> bool {
        programs().is_ok()
    }

    fn needs(&self) -> &'static [&'static str] {
        if self.release.is_some() { &[python::NAME] } else { &[] }
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(self.name, port)?;
        let programs = self.programs(ground, &directory)?;
        let running = start(ground, self.name, &programs, &directory, port)?;
        let variables = vec![("PILLARBOX_TEST_POSTGRES", url(port))];
        Ok(Up { facts: Facts { name: ROLE, port: Some(port), variables }, processes: vec![running] })
    }
}

impl Postgres {
    /// Programs that the servers' account can run; those of a release are put into the directory.
    pub(super) fn programs(&self, ground: &Ground, directory: &Path) -> Result<Programs> {
        match self.release {
            None => Ok(Programs { directory: programs()?, variables: Vec::new() }),
            Some(release) => {
                let programs = directory.join("programs");
                wheel::put(ground, release, &programs)?;
                // Their own libraries: else a standby's receiver would load Debian's older libpq.
                let variables = vec![("LD_LIBRARY_PATH", programs.join("lib"))];
                Ok(Programs { directory: programs.join("bin"), variables })
            }
        }
    }
}

/// The programs of one version.
pub(super) struct Programs {
    directory: PathBuf,
    /// What they run under.
    variables: Vec<(&'static str, PathBuf)>,
}

impl Programs {
    pub(super) fn command(&self, ground: &Ground, program: &str, on_our_death: &str) -> Command {
        let program = self.directory.join(program);
        if self.variables.is_empty() {
            return ground.command(program, on_our_death);
        }
        // Not for what changes the account before it: a library would begin there.
        let mut command = ground.command("env", on_our_death);
        command.args(self.variables.iter().map(|(name, value)| format!("{name}={}", value.display())));
        command.arg(program);
        command
    }

    /// The same programs under other variables.
    pub(super) fn under(self, variables: Vec<(&'static str, PathBuf)>) -> Self {
        Self { variables, ..self }
    }
}

/// Makes a cluster in the directory and starts it; it answers when this returns.
pub(super) fn start(
    ground: &Ground,
    name: &'static str,
    programs: &Programs,
    directory: &Path,
    port: u16,
) -> Result<Running> {
    let data = directory.join("data");
    let mut initdb = programs.command(ground, "initdb", "KILL");
    // Durability of the empty cluster does not matter, so no sync here; the server itself runs with fsync.
    initdb.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username", USER]);
    ground.run(initdb.arg("--pgdata").arg(&data))?;
    let conf = data.join("postgresql.conf");
    ground.write(&conf, &configuration(port, &directory.display().to_string()))?;

    let mut server = programs.command(ground, "postgres", STOP);
    let kind = Kind { name, stop: STOP };
    let running = Running::start(kind, server.arg("-D").arg(&data), &directory.join("log"))?;
    // Making the database is the question whether the server answers: it fails until it does.
    let mut createdb = programs.command(ground, "createdb", "KILL");
    createdb.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER, USER]);
    ground.until_ready(&running, succeeds(createdb))?;
    Ok(running)
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
