//! The servers that tests need, as child processes on free ports, each in a data directory of its own.
//!
//! One file per server, each with a unit struct that implements [`Server`]; adding one is that file and a line in
//! [`ALL`]. A server never uses what the machine already runs, and nothing is left running or lying about.

mod account;
mod chromium;
mod clock;
mod ground;
mod install;
mod kafka;
mod keeper;
mod mongodb;
mod mosquitto;
mod mysql;
mod nats;
mod node;
mod pair;
mod pgbouncer;
mod postgres;
mod probe;
mod promtool;
mod python;
mod rabbitmq;
mod redis;
mod shelf;
mod sqs;
mod wheel;

use std::process::Command;

use crate::Result;
use crate::exec::Executor;
use crate::process::Running;
use ground::Ground;

pub(crate) use install::libraries as install_libraries;
pub(crate) use keeper::Servers;
pub(crate) use postgres::programs as postgres_programs;

/// Every server that is started unless others are named, what others need before them.
const ALL: [&dyn Server; 14] = [
    &python::Python,
    &node::Node,
    &promtool::Promtool,
    &chromium::Chromium,
    &postgres::DEBIAN,
    &pgbouncer::PgBouncer,
    &mysql::MariaDb,
    &rabbitmq::RabbitMq,
    &nats::DEBIAN,
    &nats::LATEST,
    &mosquitto::Mosquitto,
    &sqs::Sqs,
    &redis::REDIS,
    &redis::VALKEY,
];

/// Servers that are started when they are named: other versions in the place of the one above, pairs, one whose clock is
/// set, what no push waits for, and one that takes half an hour to build.
const ON_REQUEST: [&dyn Server; 15] = [
    &postgres::V14,
    &postgres::V16,
    &postgres::V17,
    &postgres::V18,
    &pair::DEBIAN,
    &pair::V14,
    &pair::V16,
    &pair::V17,
    &pair::V18,
    &clock::Clock,
    &mysql::MySql,
    &mysql::Galera,
    &mongodb::SET_OF_ONE,
    &mongodb::ALONE,
    &kafka::Kafka,
];

/// The versions of PostgreSQL besides Debian's, by their names on the command line.
pub(crate) fn other_postgres_versions() -> impl Iterator<Item = &'static str> {
    ON_REQUEST.iter().filter(|server| server.role() == postgres::ROLE).map(|server| server.name())
}

/// One kind of server.
trait Server: Sync {
    /// The word on the command line.
    fn name(&self) -> &'static str;

    /// What it is to others: several servers may be the same, and one of them is started.
    fn role(&self) -> &'static str {
        self.name()
    }

    /// Debian's packages.
    fn packages(&self) -> &'static [&'static str];

    /// Whether the programs are there, so that the package need not be installed.
    fn is_installed(&self) -> bool;

    /// Servers that must run before this one.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// What tests of this server use besides it; started too, in no particular order.
    fn goes_with(&self) -> &'static [&'static str] {
        &[]
    }

    /// Starts it and returns when it answers. `before` are the servers that already run.
    fn start(&self, ground: &Ground, before: &[Facts]) -> Result<Up>;
}

/// A server that answers.
struct Up {
    facts: Facts,
    /// Dropping these stops the server.
    processes: Vec<Running>,
}

/// What others need to know of a server that answers.
#[derive(Clone)]
struct Facts {
    name: &'static str,
    /// Where it listens; none for what is no server.
    port: Option<u16>,
    /// The environment that tests read.
    variables: Vec<(&'static str, String)>,
}

/// What `cargo xtask services` was asked for.
pub(crate) struct Request {
    servers: Vec<&'static dyn Server>,
    command: Option<Vec<String>>,
}

/// Reads `[NAME]… [-- COMMAND…]`. Needed servers are added, before those that need them.
pub(crate) fn parse(arguments: &[String]) -> Result<Request> {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let names = parts.next().unwrap_or_default();
    let command = parts.next().map(<[String]>::to_vec);
    if command.as_ref().is_some_and(Vec::is_empty) {
        return Err("a command must follow --".into());
    }
    let is_known = |name: &String| name == "all" || every().any(|server| server.name() == name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("unknown server {name}; the known servers are: {}", known()).into());
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let is_asked_for = |server: &dyn Server| names.iter().any(|name| name == server.name());
    // One that is asked for by its name takes the place of the one that is started else.
    let is_replaced = |server: &dyn Server| {
        !is_asked_for(server) && every().any(|other| is_asked_for(other) && other.role() == server.role())
    };
    let is_named = |server: &dyn Server| {
        is_asked_for(server) || (all && ALL.iter().any(|one| one.name() == server.name()))
    };
    let is_called = |server: &dyn Server| {
        server.role() == server.name()
            && every()
                .filter(|by| is_named(*by))
                .any(|by| by.needs().contains(&server.role()) || by.goes_with().contains(&server.role()))
    };
    let servers: Vec<_> =
        every().filter(|server| (is_named(*server) || is_called(*server)) && !is_replaced(*server)).collect();
    for (index, server) in servers.iter().enumerate() {
        if let Some(other) = servers[..index].iter().find(|other| other.role() == server.role()) {
            let (one, other) = (server.name(), other.name());
            return Err(format!("{other} and {one} replace each other; name only one of them").into());
        }
    }
    Ok(Request { servers, command })
}

/// Every server that can be started.
fn every() -> impl Iterator<Item = &'static dyn Server> {
    ALL.into_iter().chain(ON_REQUEST)
}

/// The words that may be given on the command line.
pub(crate) fn known() -> String {
    let mut words: Vec<&str> = every().map(|server| server.name()).collect();
    words.push("all");
    words.join(", ")
}

/// Starts the servers, runs the command (or waits for an interrupt) and stops them.
pub(crate) fn run(request: &Request) -> Result<u8> {
    let executor = Executor::new()?;
    if request.command.is_some() {
        // The command is a build as a rule, and without them it fails late.
        install_libraries(&executor)?;
    }
    let servers = Servers::start(&executor, &request.servers)?;
    match request.command.as_deref() {
        Some([program, arguments @ ..]) => {
            executor.run(Command::new(program).args(arguments).envs(servers.variables()))
        }
        _ => {
            for (variable, value) in servers.variables() {
                println!("export {variable}='{value}'");
            }
            eprintln!("xtask: running until interrupted");
            executor.until_stopped()
        }
    }
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
    fn no_name_and_all_mean_every_server() {
        let every = ALL.map(Server::name);
        check("", &every, None);
        check("all -- true", &every, Some("true"));
    }

    #[test]
    fn needed_servers_start_first_also_when_they_were_not_named() {
        check("postgres", &["postgres"], None);
        check("pgbouncer", &["postgres", "pgbouncer"], None);
        check("valkey", &["python", "valkey"], None);
    }

    #[test]
    fn a_broker_comes_with_the_clients_that_read_it_back() {
        check("rabbitmq redis", &["python", "rabbitmq", "redis"], None);
        check("nats", &["python", "nats"], None);
    }

    #[test]
    fn whatever_a_server_needs_is_listed_before_it() {
        for (index, server) in ALL.iter().enumerate() {
            for need in server.needs() {
                assert!(ALL[..index].iter().any(|before| before.name() == *need), "{need}");
            }
        }
    }

    #[test]
    fn another_version_of_postgresql_stands_in_the_place_of_debians() {
        check("postgres-17", &["python", "postgres-17"], None);
        check("pgbouncer postgres-17", &["python", "pgbouncer", "postgres-17"], None);
        check("postgres-pair", &["postgres-pair"], None);
        check("postgres-clock", &["postgres-clock"], None);
        let request = parse(&["all".to_owned(), "postgres-14".to_owned()]).unwrap();
        let names: Vec<_> = request.servers.iter().map(|server| server.name()).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.contains(&"postgres-14") && !names.contains(&"postgres"), "{names:?}");
        assert!(parse(&["postgres-14".to_owned(), "postgres-17".to_owned()]).is_err());
    }

    #[test]
    fn mysql_and_a_cluster_stand_in_the_place_of_mariadb() {
        check("mysql", &["mysql"], None);
        check("galera", &["galera"], None);
        assert!(parse(&["mariadb".to_owned(), "mysql".to_owned()]).is_err());
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
