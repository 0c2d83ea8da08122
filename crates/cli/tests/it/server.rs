//! A broker of a test's own, which it may freeze, stop and start again, without harm to anybody else.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::home::{Running, eventually};
use crate::place::Broker;

/// Ports that the system gives to nobody by itself: while the server is away no connection of another program, nor of
/// the relay that tries to reach it, comes to sit on its port.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// A server process with its own port and data, which both outlive it. Killed when it is dropped.
pub(crate) struct Server {
    pub(crate) broker: Broker,
    port: u16,
    directory: TempDir,
    process: Option<Running>,
    /// Whether it lets in whoever comes.
    is_open: bool,
}

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) fn start(broker: Broker) -> Self {
        Self::start_as(broker, true)
    }

    /// Starts one that knows no user and lets in nobody without.
    pub(crate) fn start_for_users(broker: Broker) -> Self {
        assert_eq!(broker, Broker::Mqtt, "the others have no such configuration here");
        Self::start_as(broker, false)
    }

    fn start_as(broker: Broker, is_open: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Self { broker, port: 0, directory, process: None, is_open };
        // Somebody else may take the port in between: then the server ends, and another port is tried.
        while !server.is_up() {
            server.port = free_port();
            server.launch();
            eventually("the server answers or ends", || server.answers() || server.has_ended());
        }
        server
    }

    pub(crate) fn url(&self) -> String {
        let (port, scheme) = (self.port, self.scheme());
        format!("{scheme}://127.0.0.1:{port}")
    }

    fn scheme(&self) -> &'static str {
        match self.broker {
            Broker::Nats => "nats",
            Broker::Mqtt => "mqtt",
            Broker::Redis | Broker::RabbitMq | Broker::Kafka | Broker::Sqs => "redis",
        }
    }

    /// The process stays and answers nobody; the kernel goes on to accept connections for it.
    pub(crate) fn freeze(&mut self) {
        self.process().signal("STOP");
    }

    pub(crate) fn thaw(&mut self) {
        self.process().signal("CONT");
    }

    /// Stops it as an operator would, and waits until it is gone.
    pub(crate) fn stop(&mut self) {
        self.process().signal("TERM");
        let mut process = self.process.take().unwrap();
        eventually("the server ends", || process.has_ended());
    }

    /// Starts it again where it was, with what it stored.
    pub(crate) fn start_again(&mut self) {
        self.launch();
        eventually("the server answers again", || self.answers());
    }

    fn process(&mut self) -> &mut Running {
        self.process.as_mut().expect("the server runs")
    }

    fn is_up(&mut self) -> bool {
        self.process.is_some() && !self.has_ended()
    }

    fn has_ended(&mut self) -> bool {
        self.process().has_ended()
    }

    fn answers(&self) -> bool {
        TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).is_ok()
    }

    fn launch(&mut self) {
        let (port, data) = (self.port, self.directory.path().display());
        let file = self.directory.path().join("conf");
        let (mut command, text) = match self.broker {
            Broker::Nats => {
                let mut command = Command::new(program("/usr/sbin/nats-server", "nats-server"));
                command.arg("--config");
                (
                    command,
                    format!("host: \"127.0.0.1\"\nport: {port}\njetstream {{ store_dir: \"{data}\" }}\n"),
                )
            }
            Broker::Redis => {
                let text = format!("bind 127.0.0.1\nport {port}\ndir {data}\nappendonly yes\nsave \"\"\n");
                (Command::new(program("/usr/bin/redis-server", "redis-server")), text)
            }
            Broker::Mqtt => {
                let mut command = Command::new(program("/usr/sbin/mosquitto", "mosquitto"));
                command.arg("-c");
                // As root, the server would change to a user that cannot write to the directory.
                let text = format!(
                    "user root\nlistener {port} 127.0.0.1\nallow_anonymous {}\npersistence true\n\
                     persistence_location {data}/\nmax_queued_messages 0\n",
                    self.is_open
                );
                (command, text)
            }
            Broker::Kafka => panic!("the fake cluster of Kafka is no process"),
            Broker::RabbitMq => panic!("RabbitMQ takes too long to start for a test of its own"),
            Broker::Sqs => panic!("it keeps nothing when it is stopped"),
        };
        std::fs::write(&file, text).unwrap();
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Running::of(command.spawn().expect("the server is installed")));
    }
}

pub(crate) fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| {
        let random = uuid::Uuid::new_v4().as_u64_pair().0 % u64::from(PORTS.end - PORTS.start);
        PORTS.start + u16::try_from(random).unwrap()
    });
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

// Debian installs some for administrators, outside of most paths.
fn program(debian: &'static str, elsewhere: &'static str) -> &'static str {
    if Path::new(debian).exists() { debian } else { elsewhere }
}
