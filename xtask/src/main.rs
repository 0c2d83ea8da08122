//! The project's own tooling: `cargo xtask services` starts the servers that tests need, `cargo xtask ci` runs
//! every check of a push, `cargo xtask bench` measures beside peers.
//!
//! It is a program for people and scripts, so it prints: stdout is data (the variables of the servers, the test
//! runner's report), stderr is talk.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool speaks through them")]

mod bench;
mod ci;
mod exec;
mod process;
mod services;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// A tool's errors are read by people and matched by nobody, so one boxed text is enough.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
The project's own tooling.

Usage:
  cargo xtask ci [--all]
      Format, lints, dependency policy, the tests on real servers, and the suites of the store on the oldest and the newest
      supported version of PostgreSQL. Stops at the first failure.
      --all: also the documentation, what a push leaves out because it repeats other tests, MongoDB, MySQL, Galera and nisshi,
      everything on every version of PostgreSQL, and the packages. It takes hours.

  cargo xtask services [NAME]... [-- COMMAND...]
      Start servers on free ports (default: all), installing Debian's packages where they are missing: postgres,
      pgbouncer, mariadb, rabbitmq, nats, nats-latest, mosquitto, sqs (fauxqs), redis, valkey, python and node (with clients
      of these servers), chromium, and promtool (Prometheus' checker of metrics and rules).
      Only when named: postgres-14, -16, -17 and -18 instead of Debian's PostgreSQL, and postgres-pair (or
      postgres-17-pair and so on), a primary and a standby that streams from it; mysql or galera instead of MariaDB;
      mongodb; kafka (nisshi, which is built once for half an hour, or taken from PILLARBOX_NISSHI).
      With COMMAND: run it with the URLs of the servers in its environment, then stop the servers and return its exit code.
      Without: print the URLs as `export` lines and keep the servers until interrupted.

  cargo xtask bench [--quick] [--repeat N] [--only NAME]... [--no-peers]
                    [--brokers | --consumers | --databases | --page]
      Measure Pillarbox beside raw loops, peers and brokers' clients, and write docs/performance.md; see --help.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.split_first().map(|(task, rest)| (task.as_str(), rest)) {
        Some(("ci", [])) => ci::run(ci::Extent::Push),
        Some(("ci", [all])) if all == "--all" => ci::run(ci::Extent::All),
        Some(("services", rest)) => match services::parse(rest) {
            Ok(request) => services::run(&request),
            Err(error) => return usage(&error.to_string()),
        },
        Some(("bench", rest)) => match bench::parse(rest) {
            Ok(options) if options.help => {
                println!("{}", bench::HELP);
                Ok(0)
            }
            Ok(options) => bench::run(&options),
            Err(error) => return usage(&error.to_string()),
        },
        Some(("help" | "--help" | "-h", _)) => {
            println!("{USAGE}");
            Ok(0)
        }
        Some((other, _)) => return usage(&format!("unknown task or arguments: {other}")),
        None => return usage("name a task"),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("xtask: {problem}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The repository's root: the parent of this package, wherever the checkout is.
pub(crate) fn root() -> Result<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("start it as `cargo xtask`")?);
    Ok(package.parent().ok_or("the package has no parent directory")?.to_path_buf())
}
