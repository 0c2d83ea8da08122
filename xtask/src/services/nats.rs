//! NATS with JetStream: Debian's version, and the latest one from a Python package.

use std::path::{Path, PathBuf};

use super::ground::Ground;
use super::probe::answers;
use super::{Facts, Server, Up, python};
use crate::Result;
use crate::process::{Kind, Running};

/// The data is thrown away, so nobody waits for clients to leave.
const STOP: &str = "KILL";

const PROGRAM: &str = "/usr/sbin/nats-server";

pub(crate) static DEBIAN: Nats = Nats { name: "nats", variable: "PILLARBOX_TEST_NATS", debian: true };
pub(crate) static LATEST: Nats =
    Nats { name: "nats-latest", variable: "PILLARBOX_TEST_NATS_LATEST", debian: false };

pub(crate) struct Nats {
    name: &'static str,
    variable: &'static str,
    debian: bool,
}

impl Server for Nats {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static [&'static str] {
        if self.debian { &["nats-server"] } else { python::PACKAGES }
    }

    fn is_installed(&self) -> bool {
        if self.debian { Path::new(PROGRAM).exists() } else { python::is_installed() }
    }

    fn needs(&self) -> &'static [&'static str] {
        if self.debian { &[] } else { &[python::NAME] }
    }

    fn goes_with(&self) -> &'static [&'static str] {
        &[python::NAME]
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(self.name, port)?;
        let configuration = directory.join("nats.conf");
        ground.write(&configuration, &conf(self.name, port, &directory.display().to_string()))?;
        let mut server = ground.command(self.program(ground, &directory)?, STOP);
        let kind = Kind { name: self.name, stop: STOP };
        let log = directory.join("log");
        let running = Running::start(kind, server.arg("--config").arg(&configuration), &log)?;
        // It speaks first. JetStream is up before it listens.
        ground.until_ready(&running, || answers(port, b"", b"INFO {"))?;
        let variables = vec![(self.variable, format!("nats://127.0.0.1:{port}"))];
        Ok(Up { facts: Facts { name: self.name, port: Some(port), variables }, processes: vec![running] })
    }
}

impl Nats {
    fn program(&self, ground: &Ground, directory: &Path) -> Result<PathBuf> {
        if self.debian {
            return Ok(PROGRAM.into());
        }
        let program = directory.join("nats-server");
        ground.copy_program(&python::program("nats-server")?, &program)?;
        Ok(program)
    }
}

/// Limits are NATS's own: what it refuses by default is what users will see refused.
fn conf(name: &str, port: u16, directory: &str) -> String {
    format!(
        "server_name: \"{name}\"\n\
         host: \"127.0.0.1\"\n\
         port: {port}\n\
         jetstream {{ store_dir: \"{directory}/data\" }}\n"
    )
}
