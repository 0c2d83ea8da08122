//! RabbitMQ: a node of its own, with an `epmd` of its own, the management API and streams.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::ground::{Ground, random};
use super::probe::answers;
use super::{Facts, Server, Up, python};
use crate::Result;
use crate::process::{Kind, Running};

/// Debian's wrapper on the path insists on root or on its own account; this is what it calls.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const NAMES: &str = "/usr/bin/epmd";

/// The data is thrown away, so nobody waits for queues to be written. The helpers of the Erlang machine end when
/// the pipe to it does.
const KIND: Kind = Kind { name: "rabbitmq", stop: "KILL" };

/// Erlang's directory of nodes.
const NAMES_KIND: Kind = Kind { name: "epmd", stop: "KILL" };

/// Asks `epmd` for its list, which begins with its own port.
const NAMES_REQUEST: [u8; 3] = [0, 1, b'n'];

const USER: &str = "pillarbox";

/// The Erlang machine spins while it waits unless it is told not to, and other servers want the processors too.
const MACHINE: &str =
    "-noinput +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}";

pub(crate) struct RabbitMq;

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn packages(&self) -> &'static [&'static str] {
        &["rabbitmq-server"]
    }

    fn is_installed(&self) -> bool {
        Path::new(PROGRAM).exists()
    }

    fn goes_with(&self) -> &'static [&'static str] {
        &[python::NAME]
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let ports = Ports { amqp: ground.port()?, management: ground.port()?, stream: ground.port()? };
        let (nodes, names_port) = (ground.port()?, ground.port()?);
        let directory = ground.directory(KIND.name, ports.amqp)?;
        let password = format!("{:016x}", random());
        let environment = environment(&directory, ports.amqp, nodes, names_port);
        lay_out(ground, &directory, &ports, &password, &environment)?;

        // Started before the node, which would otherwise start one that outlives it. Without `-daemon` it stays
        // our child.
        let mut names = ground.command(NAMES, NAMES_KIND.stop);
        names.args(["-port", &names_port.to_string(), "-address", "127.0.0.1"]);
        let names = Running::start(NAMES_KIND, &mut names, &directory.join("epmd.log"))?;
        ground.until_ready(&names, || {
            answers(names_port, &NAMES_REQUEST, &u32::from(names_port).to_be_bytes())
        })?;

        let mut server = ground.command(PROGRAM, KIND.stop);
        server.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
        let running = Running::start(KIND, &mut server, &directory.join("log"))?;
        // It listens for clients last, when all plugins run. The answer begins a frame.
        ground.until_ready(&running, || answers(ports.amqp, b"AMQP\0\0\x09\x01", &[1]))?;

        let variables = vec![
            ("PILLARBOX_TEST_AMQP", format!("amqp://{USER}:{password}@127.0.0.1:{}/%2f", ports.amqp)),
            (
                "PILLARBOX_TEST_AMQP_MANAGEMENT",
                format!("http://{USER}:{password}@127.0.0.1:{}", ports.management),
            ),
            ("PILLARBOX_TEST_RABBITMQCTL", directory.join("rabbitmqctl").display().to_string()),
        ];
        let facts = Facts { name: KIND.name, port: Some(ports.amqp), variables };
        Ok(Up { facts, processes: vec![running, names] })
    }
}

/// Where the node listens for clients.
struct Ports {
    amqp: u16,
    management: u16,
    stream: u16,
}

/// What makes it a node of its own: nothing of `/etc/rabbitmq`, of the machine's node or of its `epmd` is used.
fn environment(directory: &Path, name: u16, nodes: u16, names: u16) -> Vec<(&'static str, String)> {
    let inside = |name: &str| directory.join(name).display().to_string();
    vec![
        ("HOME", inside("home")),
        ("RABBITMQ_NODENAME", format!("pillarbox{name}@localhost")),
        ("RABBITMQ_MNESIA_BASE", inside("data")),
        ("RABBITMQ_LOG_BASE", inside("logs")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", inside("plugins")),
        ("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", inside("advanced.config")),
        ("RABBITMQ_CONF_ENV_FILE", inside("env.conf")),
        ("RABBITMQ_DIST_PORT", nodes.to_string()),
        ("ERL_EPMD_PORT", names.to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        // Without it the script stays as a parent of the machine, and a killed script leaves the machine behind.
        ("RABBITMQ_ALLOW_INPUT", "yes".to_owned()),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", MACHINE.to_owned()),
    ]
}

/// Writes everything that the node reads, and a `rabbitmqctl` that speaks to this node.
fn lay_out(
    ground: &Ground,
    directory: &Path,
    ports: &Ports,
    password: &str,
    environment: &[(&str, String)],
) -> Result<()> {
    for name in ["home", "data", "logs"] {
        ground.subdirectory(&directory.join(name))?;
    }
    ground.write(&directory.join("plugins"), "[rabbitmq_management,rabbitmq_stream].\n")?;
    ground.write(&directory.join("rabbitmq.conf"), &conf(ports, password))?;
    ground.write(&directory.join("advanced.config"), "[].\n")?;
    ground.write(&directory.join("env.conf"), "")?;
    let cookie = directory.join("home/.erlang.cookie");
    ground.write(&cookie, &format!("{:016x}{:016x}", random(), random()))?;
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
    let exports: String =
        environment.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect();
    let script = format!("#!/bin/sh\nexport LC_ALL=C.UTF-8\n{exports}exec {CONTROL} \"$@\"\n");
    ground.write_script(&directory.join("rabbitmqctl"), &script)
}

/// Statistics are collected every second instead of every five, so that tests that ask the API wait less.
fn conf(ports: &Ports, password: &str) -> String {
    let Ports { amqp, management, stream } = ports;
    format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
         management.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {management}\n\
         stream.listeners.tcp.1 = 127.0.0.1:{stream}\n\
         default_user = {USER}\n\
         default_pass = {password}\n\
         default_user_tags.administrator = true\n\
         collect_statistics_interval = 1000\n\
         log.console = true\n\
         log.file = false\n"
    )
}
