//! `cargo xtask ci`: every check of a push, in the order in which a mistake is cheapest to learn about.
//!
//! All steps but one use the dev profile and all features, so that nothing is compiled for one step alone.

use std::env;
use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::exec::Executor;
use crate::root;
use crate::services::{Servers, install_libraries, other_postgres_versions};

/// What every command over the whole workspace gets, so that all of them mean the same build.
const WORKSPACE: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// What must be free where we build and where the servers keep their data: builds take 9 GiB, the servers up to 2.
/// A server that finds the disk full ends, and a dozen tests fail that have nothing to do with it.
const ROOM_KIB: u64 = 12 << 20;

/// Why the run ended early.
enum Stop {
    Failed { step: String, code: u8 },
    Broken(Box<dyn Error>),
}

impl<E: Into<Box<dyn Error>>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What a push must pass.
    Push,
    /// More of it on other versions of servers.
    All,
}

/// Runs everything and returns the exit code of the first step that failed.
pub(crate) fn run(extent: Extent) -> crate::Result<u8> {
    let begin = Instant::now();
    let executor = Executor::new()?;
    let steps = Steps { executor: &executor, root: &root()? };
    let outcome = all(&steps, extent)
        .and_then(|()| other_versions(&steps, extent))
        .and_then(|()| if extent == Extent::All { packages(&steps) } else { Ok(()) });
    let seconds = begin.elapsed().as_secs();
    match outcome {
        Ok(()) => {
            eprintln!("ci: everything passed in {seconds} s");
            Ok(0)
        }
        Err(Stop::Failed { step, code }) => {
            eprintln!("ci: {step} failed (exit code {code}), {seconds} s after the start");
            Ok(code)
        }
        Err(Stop::Broken(error)) => Err(error),
    }
}

fn all(steps: &Steps<'_>, extent: Extent) -> Result<(), Stop> {
    // A run that came as far as the documentation has built most of what there is.
    if !steps.root.join("target/doc").exists() {
        check_room(steps.root)?;
        check_room(&env::temp_dir())?;
    }
    steps.run("format", cargo(&["fmt", "--all", "--check"]))?;
    install_libraries(steps.executor)?;
    // They are fetched and started while the compiler runs.
    let mut servers = steps.timed("packages of servers", || Ok(Servers::begin_all(steps.executor)?))?;

    let mut clippy = workspace(&["clippy", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    steps.run("clippy", clippy)?;

    // What `cargo demo` builds. The other steps have all features.
    let alone = ["check", "--package", "pillarbox-cli", "--no-default-features", "--locked"];
    steps.run("the binary for SQLite alone", cargo(&alone))?;

    let mut documentation = workspace(&["doc", "--no-deps"]);
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    steps.run("documentation", documentation)?;

    // Before the tests, so that the last lines of the output are the test runner's own.
    if find_program("cargo-deny").is_some() {
        steps.run("dependency policy", cargo(&["deny", "--all-features", "check"]))?;
    } else {
        eprintln!("\n==> dependency policy: SKIPPED, cargo-deny is not installed");
    }

    steps.timed("servers", || Ok(servers.ready(steps.executor)?))?;
    let with_servers = |mut command: Command| {
        command.envs(servers.variables());
        command
    };
    if find_program("cargo-nextest").is_some() {
        // cargo-nextest does not run the examples of the documentation.
        steps.run("documentation tests", with_servers(workspace(&["test", "--doc"])))?;
    }
    let part: Vec<&str> = match extent {
        Extent::Push => ONLY_WITH_ALL.iter().flat_map(|name| ["--skip", name]).collect(),
        Extent::All => vec![],
    };
    let tests = steps.run("tests", with_servers(tests(&[], &part)?));
    if tests.is_err() {
        servers.complaints().iter().for_each(|line| eprintln!("{line}"));
    }
    tests
}

/// PostgreSQL in other versions than Debian's, which had everything above: at a push the store on the oldest and on the
/// newest one, each with one way to connect; with `--all` everything on every version. A server that cannot be had is a
/// failure and says why.
fn other_versions(steps: &Steps<'_>, extent: Extent) -> Result<(), Stop> {
    let push = [
        ("postgres-14", vec!["--skip", "pool", "--skip", AS_RELAY, "--skip", "plans"]),
        ("postgres-18", vec![AS_RELAY]),
    ];
    for version in other_postgres_versions() {
        let (names, of, part) = match (extent, push.iter().find(|(name, _)| *name == version)) {
            (Extent::Push, None) => continue,
            (Extent::Push, Some((_, part))) => (vec![version], &OF_POSTGRES[..1], part.as_slice()),
            (Extent::All, _) => (vec![version, "all"], &OF_POSTGRES[..], [].as_slice()),
        };
        let servers = steps.timed(version, || Ok(Servers::start_named(steps.executor, &names)?))?;
        let mut tests = tests(of, part)?;
        tests.envs(servers.variables());
        let outcome = steps.run(&format!("tests on {version}"), tests);
        if outcome.is_err() {
            servers.complaints().iter().for_each(|line| eprintln!("{line}"));
        }
        outcome?;
    }
    if extent == Extent::All { other_mysql(steps) } else { Ok(()) }
}

/// The store for MariaDB on MySQL, and on two nodes of a cluster what they share.
fn other_mysql(steps: &Steps<'_>) -> Result<(), Stop> {
    let parts: [(&str, &[&str]); 2] = [("mysql", &[]), ("galera", &["clusters"])];
    for (name, part) in parts {
        let servers = steps.timed(name, || Ok(Servers::start_named(steps.executor, &[name])?))?;
        let mut tests = tests(&["pillarbox-store-mysql"], part)?;
        tests.envs(servers.variables());
        steps.run(&format!("tests on {name}"), tests)?;
    }
    Ok(())
}

/// What a registry would get: every published crate by itself, built from its package. And whether it breaks those who use
/// the last release, once there is one.
fn packages(steps: &Steps<'_>) -> Result<(), Stop> {
    let mut package = cargo(&["package", "--workspace", "--locked", "--allow-dirty"]);
    UNPUBLISHED.iter().for_each(|name| {
        package.args(["--exclude", name]);
    });
    steps.run("packages", package)?;
    let tag =
        Command::new("git").args(["describe", "--tags", "--abbrev=0"]).current_dir(steps.root).output()?;
    let tag = String::from_utf8_lossy(&tag.stdout).trim().to_owned();
    if tag.is_empty() {
        eprintln!("\n==> semver: SKIPPED, there is no release to compare with");
    } else if find_program("cargo-semver-checks").is_none() {
        eprintln!("\n==> semver: SKIPPED, cargo-semver-checks is not installed");
    } else {
        steps.run("semver", cargo(&["semver-checks", "--workspace", "--baseline-rev", &tag]))?;
    }
    Ok(())
}

/// Crates that stay in the repository.
const UNPUBLISHED: [&str; 4] = ["pillarbox-bench", "pillarbox-examples", "pillarbox-sim", "xtask"];

/// What depends on the version of PostgreSQL, the store first.
const OF_POSTGRES: [&str; 5] =
    ["pillarbox-store-postgres", "pillarbox-cli", "pillarbox-bench", "pillarbox", "pillarbox-examples"];

/// The suite as the role of relays: a third of the store's tests, so that a push runs it on one version only.
const AS_RELAY: &str = "as_the_relays_role";

/// Tests that a push leaves to `--all`, by parts of their names: they take minutes and repeat what others show.
const ONLY_WITH_ALL: [&str; 7] = [
    AS_RELAY,
    // A package of its own, which is compiled with all that it depends on. What it calls is also in the examples of the
    // documentation.
    "the_shop_in_rust_places_its_order",
    // A push has one storm: PostgreSQL and JetStream. Each database and broker has its own tests with kills and cuts.
    "in_a_storm_on_",
    "out_of_order_in_a_queue_that_refuses",
    "out_of_order_in_a_rabbitmq_stream",
    "out_of_order_in_a_redis_stream",
    // The suites of RabbitMQ on quorum queues. A push runs them on classic queues, and all other tests of quorum queues.
    "suites::quorum::",
];

/// The tests of these packages, or of the whole workspace if none is named: all of them, or those that `part` selects.
fn tests(packages: &[&str], part: &[&str]) -> Result<Command, Stop> {
    let mut tests = if find_program("cargo-nextest").is_none() {
        let mut tests = cargo(&["test", "--no-fail-fast", "--all-features", "--locked"]);
        packages.iter().for_each(|name| {
            tests.args(["--package", name]);
        });
        if packages.is_empty() {
            tests.arg("--workspace");
        }
        tests
    } else {
        // Always of the whole workspace: a package by itself has dependencies with fewer features, which are built anew.
        let mut tests = workspace(&["nextest", "run", "--no-fail-fast"]);
        if !packages.is_empty() {
            let of: Vec<String> = packages.iter().map(|name| format!("package(={name})")).collect();
            tests.args(["--filterset", &of.join(" | ")]);
        }
        // A test waits for its server half of the time.
        let threads = 2 * thread::available_parallelism()?.get();
        tests.args(["--test-threads", &threads.to_string()]);
        // It reports on stderr; our stdout is the test runner's report, whichever runner it is.
        tests.stderr(io::stdout().as_fd().try_clone_to_owned()?);
        tests
    };
    tests.arg("--").args(part);
    Ok(tests)
}

/// Refuses to begin what would end with a full disk.
fn check_room(directory: &Path) -> Result<(), Stop> {
    let output = Command::new("df").args(["--output=avail", "--block-size=1K"]).arg(directory).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let free = text.lines().last().and_then(|line| line.trim().parse::<u64>().ok());
    match free {
        Some(free) if free < ROOM_KIB => {
            let (free, wanted) = (free >> 20, ROOM_KIB >> 20);
            let directory = directory.display();
            Err(format!("{directory}: {free} GiB are free, but a first run needs {wanted}; free some space")
                .into())
        }
        _ => Ok(()),
    }
}

struct Steps<'a> {
    executor: &'a Executor,
    root: &'a Path,
}

impl Steps<'_> {
    fn run(&self, step: &str, mut command: Command) -> Result<(), Stop> {
        command.current_dir(self.root).stdin(Stdio::null());
        self.timed(step, || match self.executor.run(&mut command)? {
            0 => Ok(()),
            code => Err(Stop::Failed { step: step.to_owned(), code }),
        })
    }

    fn timed<T>(&self, step: &str, work: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
        eprintln!("\n==> {step}");
        let begin = Instant::now();
        let outcome = work();
        eprintln!("<== {step}: {:.1} s", begin.elapsed().as_secs_f64());
        outcome
    }
}

/// The cargo that started us, so that a chosen toolchain stays chosen.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

fn workspace(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.args(WORKSPACE);
    command
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}
