//! `cargo xtask services` with real servers: whoever uses it can rely on nothing being left behind.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "in a test a panic is the report")]

mod family;

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use family::Family;

/// How long a server may take to be gone. Only a hanging one takes it.
const GONE_MAX: Duration = Duration::from_secs(30);

const URLS: &str = "echo $PILLARBOX_TEST_POSTGRES $PILLARBOX_TEST_PGBOUNCER $PILLARBOX_TEST_AMQP \
    $PILLARBOX_TEST_AMQP_MANAGEMENT $PILLARBOX_TEST_NATS $PILLARBOX_TEST_NATS_LATEST $PILLARBOX_TEST_MQTT \
    $PILLARBOX_TEST_SQS $PILLARBOX_TEST_REDIS $PILLARBOX_TEST_VALKEY $PILLARBOX_TEST_MYSQL $PILLARBOX_TEST_MYSQL_SECOND \
    $PILLARBOX_TEST_MONGODB";

#[test]
fn a_command_gets_the_servers_and_its_exit_code_is_passed_on() {
    let mut run = Run::start("exit_code", "postgres pgbouncer", "exit 7");
    assert_eq!(run.servers.len(), 2);
    assert_eq!(run.child.wait().unwrap().code(), Some(7));
    run.assert_nothing_is_left();
}

#[test]
fn the_python_of_the_tests_has_the_clients_and_the_control_of_the_broker_reaches_it() {
    let script = "$PILLARBOX_TEST_PYTHON -c 'import boto3, cloudevents, confluent_kafka, nats, paho.mqtt, pika, redis, standardwebhooks' && \
        $PILLARBOX_TEST_RABBITMQCTL add_vhost ours";
    let mut run = Run::start("clients", "rabbitmq", script);
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
    run.assert_nothing_is_left();
}

#[test]
fn a_terminated_run_ends_the_command_and_the_servers() {
    let mut run = Run::start("terminated", "all", "exec sleep 600");
    assert_eq!(run.servers.len(), 11);
    assert!(run.servers.iter().all(|server| TcpStream::connect(server).is_ok()));
    let family = Family::of(run.child.id());
    assert_eq!(run.signal("TERM").code(), Some(128 + 15));
    run.assert_nothing_is_left();
    family.assert_gone();
}

#[test]
fn servers_that_are_started_on_request_only_leave_nothing_behind() {
    // MySQL and the cluster take the place of the same server, so each has its turn.
    for (name, servers) in [("mysql mongodb", 2), ("galera", 2)] {
        let mut run = Run::start("on_request", name, "exec sleep 600");
        assert_eq!(run.servers.len(), servers, "{name}");
        assert!(run.servers.iter().all(|server| TcpStream::connect(server).is_ok()), "{name}");
        assert_eq!(run.signal("TERM").code(), Some(128 + 15));
        run.assert_nothing_is_left();
    }
}

#[test]
fn a_killed_run_takes_its_servers_along() {
    let mut run = Run::start("killed", "all", "exec cat");
    let family = Family::of(run.child.id());
    assert_eq!(run.signal("KILL").signal(), Some(9));
    // Nobody is left to wait for the servers, so their end is a little later than ours.
    wait_until(|| !run.servers.iter().any(|server| TcpStream::connect(server).is_ok()));
    family.assert_gone();
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    let (_never, pause) = mpsc::channel::<()>();
    while !condition() {
        assert!(begin.elapsed() < GONE_MAX, "a server outlives the tool that started it");
        let _ = pause.recv_timeout(Duration::from_millis(20));
    }
}

/// One run of the tool with a temporary directory of its own, and where its servers listen.
struct Run {
    child: Child,
    directory: PathBuf,
    servers: Vec<SocketAddr>,
}

impl Run {
    /// Returns when the command runs: its first line is the servers' URLs.
    fn start(name: &str, servers: &str, script: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("pillarbox-test-{}-{name}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&directory).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        // The servers that this test itself may run beside are not the ones that it starts.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PILLARBOX_TEST_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .arg("services")
            .args(servers.split(' '))
            .args(["--", "sh", "-c", &format!("{URLS}; {script}")])
            .env("TMPDIR", &directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut talk = String::new();
            child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
            panic!("the servers did not start: {talk}");
        }
        let servers = line
            .split_whitespace()
            .map(|url| url.split(['@', '/']).find_map(|part| part.parse().ok()).expect("an address"))
            .collect();
        Self { child, directory, servers }
    }

    fn signal(&mut self, name: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -s $0 $1", name, &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    fn assert_nothing_is_left(&self) {
        assert!(self.servers.iter().all(|server| TcpStream::connect(server).is_err()), "a server still runs");
        assert_eq!(fs::read_dir(&self.directory).unwrap().count(), 0, "a directory is left");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
