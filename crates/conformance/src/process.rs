//! Servers that belong to one test, which may configure, kill, pause and restart them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::delivery::{SOON, random};
use pillarbox_testkit::eventually;

/// Ports that no system hands out by itself: neither to a client that connects, nor to a server that asks for any.
const PORTS: Range<u16> = 10_240..32_768;

/// A port of the loopback interface for a server that is started soon, and perhaps started again. A port that the
/// system picks would not do: while the server is down, a client may be given that port for its own end, and one that
/// connects to the server again and again may even connect to itself.
///
/// # Panics
/// When no port is free.
#[must_use]
pub fn free_port() -> u16 {
    let begin = random();
    let length = u64::from(PORTS.end - PORTS.start);
    let ports = (0..length).filter_map(|n| u16::try_from(begin.wrapping_add(n) % length).ok());
    let mut ports = ports.map(|n| PORTS.start + n);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}

/// A server on a free port of the loopback interface. It is stopped when this value is dropped.
pub struct OwnServer {
    port: u16,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    process: Mutex<Child>,
}

impl OwnServer {
    /// Starts a server and waits until it answers. `prepare` is given the port, and returns a function that
    /// makes the command for each start. That function may own the server's directory.
    ///
    /// # Panics
    /// When the program cannot be started, or does not answer.
    pub async fn start<C>(prepare: impl FnOnce(u16) -> C) -> Self
    where
        C: Fn() -> Command + Send + Sync + 'static,
    {
        let port = free_port();
        let command = prepare(port);
        let process = Mutex::new(launch(command()));
        let server = Self { port, command: Box::new(command), process };
        server.answers().await;
        server
    }

    /// The server's port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) {
        let mut process = self.process();
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Asks the server to end, and waits until it has: it may store what it has.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn stop(&self) {
        self.signal("-TERM");
        let _ = self.process().wait();
    }

    /// Starts the server again on the data that it stored.
    ///
    /// # Panics
    /// When the program cannot be started, or does not answer.
    pub async fn restart(&self) {
        self.kill();
        let process = launch((self.command)());
        *self.process() = process;
        self.answers().await;
    }

    /// Pauses the server's process.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets the server's process go on.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.process().id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success(), "kill {signal} {pid}");
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answers(&self) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        eventually(SOON, async || TcpStream::connect(address).is_ok()).await;
    }
}

fn launch(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()))
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}
