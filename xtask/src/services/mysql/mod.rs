//! MariaDB from Debian, and in its place MySQL or a cluster of two MariaDB nodes.

mod galera;
mod mariadb;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ground::{Ground, random};
use super::probe::greets;
use super::{Facts, Server, Up, shelf};
use crate::Result;
use crate::process::{Kind, Running};

pub(crate) use galera::Galera;
pub(crate) use mariadb::MariaDb;
pub(crate) use server::MySql;

/// What each of them is to others.
const ROLE: &str = "mysql";

/// The data is thrown away, so nobody waits for an orderly end.
const STOP: &str = "KILL";

/// The administrator of tests, and a database of that name.
const USER: &str = "pillarbox";

/// What each of them is started with. Durability stays on: what we promise about a crash is tested with the real cost.
const COMMON: [&str; 4] = [
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-connections=400",
    "--innodb-buffer-pool-size=128M",
];

/// Where a server keeps its temporary tables, within its own directory.
const SCRATCH: &str = "scratch";

/// One start of one server.
struct Node {
    port: u16,
    /// Made for this run, so that tests can look for it where it must not appear.
    password: String,
    directory: PathBuf,
}

impl Node {
    fn new(ground: &Ground, name: &str) -> Result<Self> {
        let port = ground.port()?;
        let directory = ground.directory(name, port)?;
        ground.subdirectory(&directory.join(SCRATCH))?;
        Ok(Self { port, password: format!("{:016x}", random()), directory })
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Its own directory for temporary tables. In the one that all programs share, a server that starts deletes those of
    /// the others.
    fn scratch(&self) -> String {
        option("tmpdir", &self.directory.join(SCRATCH))
    }

    fn url(&self) -> String {
        format!("mysql://{USER}:{}@127.0.0.1:{}/{USER}", self.password, self.port)
    }

    /// Starts the program, which has its own options already. It makes the account and answers when this returns.
    fn start(&self, ground: &Ground, name: &'static str, program: &mut Command) -> Result<Running> {
        let first = self.directory.join("first.sql");
        ground.write(&first, &accounts(&self.password))?;
        program.args(COMMON).arg(format!("--port={}", self.port)).arg(option("datadir", &self.data()));
        program.arg(self.scratch()).arg(option("init-file", &first));
        program.arg(option("socket", &self.directory.join("s")));
        program.arg(option("pid-file", &self.directory.join("pid")));
        let running = Running::start(Kind { name, stop: STOP }, program, &self.directory.join("log"))?;
        ground.until_ready(&running, || greets(self.port))?;
        Ok(running)
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// What a server runs before it answers. The administrator may do everything, also make databases and lesser accounts.
fn accounts(password: &str) -> String {
    format!(
        "create database if not exists {USER};\n\
         create user if not exists '{USER}'@'%' identified by '{password}';\n\
         grant all on *.* to '{USER}'@'%' with grant option;\n"
    )
}

/// What tests read of one server.
fn facts(name: &'static str, node: &Node) -> Facts {
    Facts { name, port: Some(node.port), variables: vec![("PILLARBOX_TEST_MYSQL", node.url())] }
}
