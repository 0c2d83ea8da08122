//! fauxqs, a server that speaks the protocol of Amazon SQS and keeps its queues in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ground::{Ground, random};
use super::probe::answers;
use super::{Facts, Server, Up, python, shelf};
use crate::Result;
use crate::process::{Kind, Running};

const NAME: &str = "sqs";
/// The data is thrown away, so nobody waits for clients to leave.
const STOP: &str = "KILL";
/// What is installed. The lock file has every version and checksum.
const MANIFEST: &str = include_str!("../../sqs/package.json");
const LOCK: &str = include_str!("../../sqs/package-lock.json");
const SCRIPT: &str = include_str!("../../sqs/server.mjs");
const SCRIPT_NAME: &str = "server.mjs";
const VERSION: &str = "1.9.2";

pub(crate) struct Sqs;

impl Server for Sqs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        &["npm"]
    }

    fn is_installed(&self) -> bool {
        ["node", "npm"].into_iter().all(|program| {
            let mut question = Command::new(program);
            question.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            question.status().is_ok_and(|status| status.success())
        })
    }

    fn goes_with(&self) -> &'static [&'static str] {
        &[python::NAME]
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(NAME, port)?;
        let installed = installed(ground)?;
        // The servers' account cannot read what is under `target`.
        let copy = directory.join("root");
        ground.run(Command::new("cp").arg("-r").arg(&installed).arg(&copy))?;
        let mut server = ground.command("env", STOP);
        server.arg(format!("PORT={port}")).arg("node").arg(copy.join(SCRIPT_NAME));
        let kind = Kind { name: NAME, stop: STOP };
        let running = Running::start(kind, &mut server, &directory.join("log"))?;
        let question = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        ground.until_ready(&running, || answers(port, question, b"HTTP/1.1 200"))?;
        let variables = vec![
            ("PILLARBOX_TEST_SQS", format!("http://127.0.0.1:{port}")),
            ("PILLARBOX_TEST_SQS_SERVER", installed.join(SCRIPT_NAME).display().to_string()),
            // The server takes any. Made for this run, so that tests can look for it where it must not appear.
            ("AWS_ACCESS_KEY_ID", "pillarbox".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", format!("{:016x}", random())),
        ];
        Ok(Up { facts: Facts { name: NAME, port: Some(port), variables }, processes: vec![running] })
    }
}

/// The server and what it needs, installed once.
fn installed(ground: &Ground) -> Result<PathBuf> {
    let place = shelf::once("fauxqs", VERSION, |workshop: &Path| {
        eprintln!("xtask: installing fauxqs (once)");
        fs::write(workshop.join("package.json"), MANIFEST)?;
        fs::write(workshop.join("package-lock.json"), LOCK)?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(workshop);
        ground.run(&mut npm)
    })?;
    fs::write(place.join(SCRIPT_NAME), SCRIPT)?;
    Ok(place)
}
