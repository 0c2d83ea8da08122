//! nisshi, a broker that speaks the protocol of Kafka. Cargo builds it once, which takes about half an hour.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::ground::Ground;
use super::{Facts, Server, Up, python, shelf};
use crate::Result;
use crate::process::{Kind, Running};

const NAME: &str = "kafka";
/// The data is thrown away, so nobody waits for an orderly end.
const STOP: &str = "KILL";
const VERSION: &str = "0.8.1";
/// A program that was built elsewhere, instead of building it here.
const PROGRAM: &str = "PILLARBOX_NISSHI";
/// What the broker asks of its builder and does not need: a newer compiler than it was tried with.
const BUILD: [&str; 8] = [
    "install",
    "nisshi",
    "--locked",
    "--ignore-rust-version",
    "--no-default-features",
    "--features",
    "dynostore,libsql",
    "--version",
];

pub(crate) struct Kafka;

impl Server for Kafka {
    fn name(&self) -> &'static str {
        NAME
    }

    // Nothing is installed for it: the compiler that builds us builds it.
    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    fn is_installed(&self) -> bool {
        true
    }

    fn goes_with(&self) -> &'static [&'static str] {
        &[python::NAME]
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(NAME, port)?;
        let program = directory.join("nisshi");
        ground.run(Command::new("cp").arg(built(ground)?).arg(&program))?;
        let listener = format!("tcp://127.0.0.1:{port}");
        // It takes the path of its data from the directory that it runs in.
        let mut server = ground.command("sh", STOP);
        server.args(["-c", "cd \"$1\" && shift && exec \"$@\"", "sh"]).arg(&directory).arg(&program);
        server.args(["broker", "--listener-url", &listener, "--advertised-listener-url", &listener]);
        server.args(["--storage-engine", "sqlite://nisshi.db"]);
        server.args(["--group-initial-rebalance-delay", "0s", "--group-poll-interval", "100ms"]);
        let kind = Kind { name: NAME, stop: STOP };
        let log = directory.join("log");
        let running = Running::start(kind, &mut server, &log)?;
        let is_ready = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("ready in"));
        ground.until_ready(&running, is_ready)?;
        let variables = vec![
            ("PILLARBOX_TEST_KAFKA", format!("kafka://127.0.0.1:{port}")),
            ("PILLARBOX_TEST_NISSHI", program.display().to_string()),
        ];
        Ok(Up { facts: Facts { name: NAME, port: Some(port), variables }, processes: vec![running] })
    }
}

/// The program, built if it was not yet.
fn built(ground: &Ground) -> Result<PathBuf> {
    if let Some(program) = env::var_os(PROGRAM) {
        let program = PathBuf::from(program);
        if !program.is_file() {
            return Err(format!("{PROGRAM}: {} is no file", program.display()).into());
        }
        return Ok(program);
    }
    let kept = shelf::once("nisshi", VERSION, |workshop| {
        eprintln!("xtask: building nisshi {VERSION} (once; about half an hour on two processors)");
        let target = workshop.join("target");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(BUILD).args([VERSION, "--root"]).arg(workshop);
        cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        ground.run(&mut cargo)?;
        // What only the compiler needed: more than a gigabyte.
        Ok(std::fs::remove_dir_all(&target)?)
    })
    .map_err(|error| format!("nisshi could not be built: {error}"))?;
    Ok(kept.join("bin/nisshi"))
}
