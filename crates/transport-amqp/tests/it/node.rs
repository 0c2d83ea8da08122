//! RabbitMQ nodes of a test's own, which it may stop, kill and start again.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_conformance::process::free_port;
use pillarbox_testkit::eventually;
use tempfile::TempDir;

/// What Debian's wrapper calls, which insists on an account of its own.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const NAMES: &str = "/usr/bin/epmd";
/// A node takes long to start on a machine that does much else.
const SOON: Duration = Duration::from_secs(300);
const MACHINE: &str =
    "-noinput +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}";

fn listens(port: u16) -> bool {
    TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok()
}

/// One node or several that form a cluster, with a directory of nodes of their own. Gone when dropped.
pub(crate) struct Cluster {
    directory: TempDir,
    names_port: u16,
    names: Child,
    nodes: Vec<Node>,
}

struct Node {
    name: String,
    port: u16,
    nodes_port: u16,
    process: Mutex<Option<Child>>,
}

impl Node {
    /// The process, also after a failed assertion: what ends it must not fail too, or nobody learns what failed first.
    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    /// Starts so many nodes.
    pub(crate) async fn start(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let names_port = free_port();
        let mut names = Command::new(NAMES);
        names.args(["-port", &names_port.to_string(), "-address", "127.0.0.1"]);
        let names = names.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("epmd is installed");
        let node = || {
            let port = free_port();
            let name = format!("pillarbox{port}@localhost");
            Node { name, port, nodes_port: free_port(), process: Mutex::new(None) }
        };
        let nodes = (0..count).map(|_| node()).collect();
        let cluster = Self { directory, names_port, names, nodes };
        eventually(SOON, async || listens(names_port)).await;
        cluster.lay_out();
        // The others join the first. A node that finds nobody for five seconds goes on alone, for ever.
        cluster.restart(0).await;
        for index in 1..count {
            cluster.launch(index);
        }
        for index in 1..count {
            cluster.answers(index).await;
        }
        cluster
    }

    /// The URL of one node, without a query.
    pub(crate) fn url(&self, index: usize) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.nodes[index].port)
    }

    /// Kills a node as a power cut would.
    pub(crate) fn kill(&self, index: usize) {
        if let Some(mut process) = self.nodes[index].process().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Lets a node write down what was declared on it. It answers before it has: killed at once, it comes back without a
    /// queue that it had confirmed messages for (RabbitMQ 3.10, two of nine times on a busy machine).
    pub(crate) fn store(&self, index: usize) {
        let mut control = self.command(CONTROL, index);
        let told = control.args(["eval", "mnesia:sync_log()."]).output().expect("rabbitmqctl is installed");
        assert!(told.status.success() && told.stdout.starts_with(b"ok"), "{told:?}");
    }

    /// Starts a node again on what it stored.
    pub(crate) async fn restart(&self, index: usize) {
        self.launch(index);
        self.answers(index).await;
    }

    async fn answers(&self, index: usize) {
        let port = self.nodes[index].port;
        eventually(SOON, async || {
            if let Some(process) = self.nodes[index].process().as_mut() {
                let ended = process.try_wait().unwrap();
                assert!(ended.is_none(), "the node ended: {}", self.log(index));
            }
            listens(port)
        })
        .await;
    }

    fn log(&self, index: usize) -> String {
        fs::read_to_string(self.home(index).join("log")).unwrap_or_default()
    }

    fn home(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("node{index}"))
    }

    fn lay_out(&self) {
        let members: String = (1..)
            .zip(&self.nodes)
            .map(|(n, node)| format!("cluster_formation.classic_config.nodes.{n} = {}\n", node.name))
            .collect();
        for (index, node) in self.nodes.iter().enumerate() {
            let home = self.home(index);
            fs::create_dir(&home).unwrap();
            let conf = format!(
                "listeners.tcp.1 = 127.0.0.1:{}\nlog.file = false\nlog.console = true\n{members}",
                node.port
            );
            fs::write(home.join("rabbitmq.conf"), conf).unwrap();
            for (name, text) in [("plugins", "[].\n"), ("advanced.config", "[].\n"), ("env.conf", "")] {
                fs::write(home.join(name), text).unwrap();
            }
            let cookie = home.join(".erlang.cookie");
            fs::write(&cookie, "PILLARBOXTEST").unwrap();
            fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
        }
    }

    fn launch(&self, index: usize) {
        let log = fs::File::options().create(true).append(true).open(self.home(index).join("log")).unwrap();
        let mut server = self.command(PROGRAM, index);
        server
            // Without it the script stays as a parent of the machine, and a killed script leaves the machine behind.
            .env("RABBITMQ_ALLOW_INPUT", "yes")
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", MACHINE);
        server.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        let server = server.spawn().expect("rabbitmq-server is installed");
        *self.nodes[index].process() = Some(server);
    }

    /// One of RabbitMQ's programs, for a node.
    fn command(&self, program: &str, index: usize) -> Command {
        let (node, home) = (&self.nodes[index], self.home(index));
        let mut command = Command::new(program);
        for (variable, file) in [
            ("HOME", ""),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "logs"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
            ("RABBITMQ_CONF_ENV_FILE", "env.conf"),
        ] {
            command.env(variable, home.join(file));
        }
        command
            .env("RABBITMQ_NODENAME", &node.name)
            .env("RABBITMQ_DIST_PORT", node.nodes_port.to_string())
            .env("ERL_EPMD_PORT", self.names_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    #[allow(clippy::print_stderr, reason = "what a node said is needed where its test failed")]
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
            if std::thread::panicking() {
                eprintln!("node {index} said: {}", self.log(index));
            }
        }
        let _ = self.names.kill();
        let _ = self.names.wait();
    }
}
