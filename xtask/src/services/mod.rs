//! The servers that tests need, as child processes on free ports, each in a data directory of its own.
//!
//! One file per server, each with a unit struct that implements [`Server`]; adding one is that file and a line in
//! [`ALL`]. A server never uses what the machine already runs, and nothing is left running or lying about.

mod account;
mod ground;
mod install;
mod pgbouncer;
mod postgres;

use std::net::TcpListener;
use std::process::Command;

use crate::Result;
use crate::exec::Executor;
use crate::process::Running;
use ground::Ground;

/// Every server that can be started, what others need before them.
const ALL: [&dyn Server; 2] = [&postgres::Postgres, &pgbouncer::PgBouncer];

/// How often a server is started on another port when it ends at once: someone else may have taken the port.
const TRIES_MAX: u32 = 3;

/// One kind of server.
trait Server: Sync {
    /// The word on the command line.
    fn name(&self) -> &'static str;

    /// The environment variable that carries the URL to tests.
    fn variable(&self) -> &'static str;

    /// Debian's package.
    fn package(&self) -> &'static str;

    /// Whether the programs are there, so that the package need not be installed.
    fn is_installed(&self) -> bool;

    /// Servers that must run before this one.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Starts it on `port` and returns when it answers. `before` are the servers that already run.
    fn start(&self, ground: &Ground<'_>, port: u16, before: &[Started]) -> Result<(Running, String)>;
}

/// A server that answers.
struct Started {
    name: &'static str,
    variable: &'static str,
    url: String,
    port: u16,
    #[expect(dead_code, reason = "held for its Drop, which stops the server")]
    running: Running,
}

/// What `cargo xtask services` was asked for.
pub(crate) struct Request {
    servers: Vec<&'static dyn Server>,
    command: Option<Vec<String>>,
}

/// Reads `[NAME]… [-- COMMAND…]`. Needed servers are added, in the order in which they start.
pub(crate) fn parse(arguments: &[String]) -> Result<Request> {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let names = parts.next().unwrap_or_default();
    let command = parts.next().map(<[String]>::to_vec);
    if command.as_ref().is_some_and(Vec::is_empty) {
        return Err("a command must follow --".into());
    }
    let known = || ALL.iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
    let is_known = |name: &String| name == "all" || ALL.iter().any(|server| server.name() == name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("unknown server {name}; there are: {}, all", known()).into());
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let is_wanted = |server: &dyn Server| all || names.iter().any(|name| name == server.name());
    let is_needed =
        |server: &dyn Server| ALL.iter().any(|by| is_wanted(*by) && by.needs().contains(&server.name()));
    let servers = ALL.into_iter().filter(|server| is_wanted(*server) || is_needed(*server)).collect();
    Ok(Request { servers, command })
}

/// Starts the servers, runs the command (or waits for an interrupt) and stops them.
pub(crate) fn run(request: &Request) -> Result<u8> {
    let executor = Executor::new()?;
    let servers = Servers::start(&executor, &request.servers)?;
    match request.command.as_deref() {
        Some([program, arguments @ ..]) => {
            executor.run(Command::new(program).args(arguments).envs(servers.variables()))
        }
        _ => {
            for (variable, url) in servers.variables() {
                println!("export {variable}='{url}'");
            }
            eprintln!("xtask: running until interrupted");
            executor.until_stopped()
        }
    }
}

/// Running servers. Dropping them stops them, last started first, and removes their directory.
pub(crate) struct Servers<'a> {
    started: Vec<Started>,
    _ground: Ground<'a>,
}

impl<'a> Servers<'a> {
    /// Starts every server there is.
    pub(crate) fn start_all(executor: &'a Executor) -> Result<Self> {
        Self::start(executor, &ALL)
    }

    fn start(executor: &'a Executor, servers: &[&'static dyn Server]) -> Result<Self> {
        install::missing(executor, servers)?;
        let mut running = Self { started: Vec::new(), _ground: Ground::new(executor)? };
        for server in servers {
            running.add(*server)?;
        }
        Ok(running)
    }

    fn add(&mut self, server: &'static dyn Server) -> Result<()> {
        let mut tries = 1;
        let (port, (running, url)) = loop {
            let port = free_port()?;
            match server.start(&self._ground, port, &self.started) {
                Ok(started) => break (port, started),
                Err(error) if tries == TRIES_MAX || self._ground.is_interrupted() => return Err(error),
                Err(_) => tries += 1,
            }
        };
        eprintln!("xtask: {} on port {port}", server.name());
        self.started.push(Started { name: server.name(), variable: server.variable(), url, port, running });
        Ok(())
    }

    /// The environment that tests read.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.started.iter().map(|server| (server.variable, server.url.as_str()))
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        while self.started.pop().is_some() {}
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, servers: &[&str], command: Option<&str>) {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        let request = parse(&arguments).unwrap();
        assert_eq!(request.servers.iter().map(|server| server.name()).collect::<Vec<_>>(), servers);
        assert_eq!(request.command.map(|words| words.join(" ")).as_deref(), command);
    }

    #[test]
    fn needed_servers_start_first_also_when_they_were_not_named() {
        check("", &["postgres", "pgbouncer"], None);
        check("all -- true", &["postgres", "pgbouncer"], Some("true"));
        check("postgres", &["postgres"], None);
        check("pgbouncer", &["postgres", "pgbouncer"], None);
    }

    #[test]
    fn words_after_the_first_dashes_belong_to_the_command() {
        check("postgres -- cargo test -- name", &["postgres"], Some("cargo test -- name"));
    }

    #[test]
    fn an_unknown_server_and_an_empty_command_are_refused() {
        assert!(parse(&["oracle".to_owned()]).is_err());
        assert!(parse(&["all".to_owned(), "--".to_owned()]).is_err());
    }
}
