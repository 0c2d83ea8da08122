//! Runs one of them on a database of its own and reads what it says.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Places;
use super::install::{PYTHON, RUST, RUST_MYSQL};
use super::options::Options;
use super::peers::{Language, Peer};
use crate::Result;
use crate::exec::Executor;
use crate::process::tail;
use crate::services::{Servers, postgres_programs};

/// How long one run may take.
const SECONDS_MAX: &str = "600";
/// What `timeout` ends with when that was not enough.
const TIMED_OUT: u8 = 124;
/// The database of the one who runs.
const DATABASE: &str = "bench";

/// Runs on one server.
pub(crate) struct Runner<'a> {
    executor: &'a Executor,
    places: &'a Places,
    programs: PathBuf,
    /// The server's URL without a database.
    server: String,
}

/// What one run of a peer reached.
pub(crate) struct Done {
    pub(crate) per_second: f64,
    pub(crate) version: String,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(executor: &'a Executor, places: &'a Places, servers: &Servers) -> Result<Self> {
        let url = servers.variable("PILLARBOX_TEST_POSTGRES")?;
        let (server, _) = url.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
        Ok(Self { executor, places, programs: postgres_programs()?, server: server.to_owned() })
    }

    /// Runs a peer.
    pub(crate) fn peer(&self, peer: &Peer, options: &Options) -> Result<Done> {
        let jobs = options.jobs(peer.jobs);
        done(&self.said(&mut command(self.places, peer, jobs))?, jobs)
    }

    /// Runs a command on an empty database, and returns the JSON of its last line.
    pub(crate) fn said(&self, command: &mut Command) -> Result<Value> {
        self.empty_database()?;
        said(self.executor, self.places, command.env("DATABASE_URL", self.url()))
    }

    /// The URL of the database that the next run gets.
    pub(crate) fn url(&self) -> String {
        format!("{}/{DATABASE}", self.server)
    }

    /// One value of a query on the server.
    pub(crate) fn ask(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        let output =
            psql.args(["--no-psqlrc", "-qtAX", &format!("{}/postgres", self.server), "-c", sql]).output()?;
        if !output.status.success() {
            return Err(format!("psql: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Nobody finds what somebody else has left, neither tables nor pages to be cleaned.
    fn empty_database(&self) -> Result<()> {
        for sql in [
            format!("drop database if exists {DATABASE} with (force)"),
            format!("create database {DATABASE}"),
            "checkpoint".to_owned(),
        ] {
            self.ask(&sql)?;
        }
        Ok(())
    }
}

/// What runs a peer.
pub(crate) fn command(places: &Places, peer: &Peer, jobs: u32) -> Command {
    let (peers, sources) = (&places.peers, &places.sources);
    let mut command = timed();
    match peer.language {
        Language::Node => command.arg("node").arg(peers.join("node").join(format!("{}.mjs", peer.name))),
        Language::Python => {
            command.arg(peers.join(PYTHON)).arg(sources.join("python").join(format!("peer_{}.py", peer.name)))
        }
        Language::Rust => command.arg(peers.join(RUST)).arg(peer.name),
        Language::RustMysql => command.arg(peers.join(RUST_MYSQL)).arg(peer.name),
    };
    command.arg(jobs.to_string());
    command
}

/// What a peer says that it did.
pub(crate) fn done(said: &Value, jobs: u32) -> Result<Done> {
    let number = |name: &str| said[name].as_f64().filter(|value| *value > 0.0);
    let (Some(did), Some(seconds)) = (number("jobs"), number("seconds")) else {
        return Err(format!("printed {said}, which is not a result line").into());
    };
    if (did - f64::from(jobs)).abs() > 0.5 {
        return Err(format!("did {did} of {jobs} jobs").into());
    }
    let version = said["version"].as_str().unwrap_or("unknown").to_owned();
    Ok(Done { per_second: did / seconds, version })
}

/// Runs a command, and returns the JSON of its last line.
pub(crate) fn said(executor: &Executor, places: &Places, command: &mut Command) -> Result<Value> {
    let (out, log) = (places.peers.join("out.json"), places.peers.join("run.log"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&log)?);
    match executor.run(command.env("PYTHONDONTWRITEBYTECODE", "1"))? {
        0 => {}
        TIMED_OUT => return Err(format!("took more than {SECONDS_MAX} s").into()),
        code => {
            let said = tail(&log);
            eprintln!("{said}");
            let last = said.lines().last().unwrap_or_default().to_owned();
            return Err(format!("failed with exit code {code}: {last}").into());
        }
    }
    let said = fs::read_to_string(&out)?;
    let last = said.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("printed {said:?}: {error}").into())
}

/// A command that does not run for ever.
pub(crate) fn timed() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", SECONDS_MAX]);
    command
}
