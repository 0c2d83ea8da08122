//! Mosquitto, a server of MQTT 5.

use std::path::Path;

use super::ground::Ground;
use super::probe::answers;
use super::{Facts, Server, Up, python};
use crate::Result;
use crate::process::{Kind, Running};

const NAME: &str = "mosquitto";
const PROGRAM: &str = "/usr/sbin/mosquitto";
/// The data is thrown away, so nobody waits for clients to leave.
const STOP: &str = "KILL";
/// A CONNECT packet of MQTT 5 without a client id, and how its CONNACK begins.
const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x00";
const CONNACK: &[u8] = b"\x20";

pub(crate) struct Mosquitto;

impl Server for Mosquitto {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mosquitto"]
    }

    fn is_installed(&self) -> bool {
        Path::new(PROGRAM).exists()
    }

    fn goes_with(&self) -> &'static [&'static str] {
        &[python::NAME]
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(NAME, port)?;
        let configuration = directory.join("mosquitto.conf");
        ground.write(&configuration, &conf(port))?;
        let mut server = ground.command(PROGRAM, STOP);
        let kind = Kind { name: NAME, stop: STOP };
        let log = directory.join("log");
        let running = Running::start(kind, server.arg("-c").arg(&configuration), &log)?;
        ground.until_ready(&running, || answers(port, CONNECT, CONNACK))?;
        let variables = vec![("PILLARBOX_TEST_MQTT", format!("mqtt://127.0.0.1:{port}"))];
        Ok(Up { facts: Facts { name: NAME, port: Some(port), variables }, processes: vec![running] })
    }
}

/// Limits are Mosquitto's own, so that tests meet its receive maximum of 20. But a session that is away may hold as
/// many messages as a test publishes.
fn conf(port: u16) -> String {
    format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
}
