//! `cargo xtask ci`: every check of a push, in the order in which a mistake is cheapest to learn about.
//!
//! All steps but one use the dev profile and all features, so that nothing is compiled for one step alone. Clippy looks at
//! our crates while they are built for the tests: checked by `cargo clippy`, everything would be compiled twice.

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
    /// Everything that there is, on every version of every server. It takes hours.
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
    // A run that came as far as the tests has built most of what there is.
    if !steps.root.join("target/debug/pillarbox-bench").exists() {
        check_room(steps.root)?;
        check_room(&env::temp_dir())?;
    }
    steps.run("format", cargo(&["fmt", "--all", "--check"]))?;
    install_libraries(steps.executor)?;
    // They are fetched and started while the compiler runs.
    let mut servers = steps.timed("packages of servers", || Ok(Servers::begin_all(steps.executor)?))?;

    steps.run("clippy and build", linted(runner(&["--no-run"]))?)?;

    // What `cargo demo` builds. The other steps have all features.
    let alone = ["check", "--package", "pillarbox-cli", "--no-default-features", "--locked"];
    steps.run("the binary for SQLite alone", cargo(&alone))?;

    if extent == Extent::All {
        let mut documentation = workspace(&["doc", "--no-deps"]);
        documentation.env("RUSTDOCFLAGS", "-D warnings");
        steps.run("documentation", documentation)?;
    }

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
        steps.run("documentation tests", with_servers(linted(workspace(&["test", "--doc"]))?))?;
    }
    let mut left_out = vec![ON_NISSHI, ON_MONGODB, ON_TWO_NODES];
    if extent == Extent::Push {
        left_out.extend(ONLY_WITH_ALL);
    }
    let part: Vec<&str> = left_out.iter().flat_map(|name| ["--skip", name]).collect();
    let packages =
        if extent == Extent::Push { Packages::OfAPush } else { Packages::AllBut(STORE_OF_MONGODB) };
    let mut tests = with_servers(tests(packages, &part)?);
    if extent == Extent::All {
        tests.env("PILLARBOX_SIM_SEEDS", SEEDS_WITH_ALL);
    }
    let tests = steps.run("tests", tests);
    if tests.is_err() {
        servers.complaints().iter().for_each(|line| eprintln!("{line}"));
    }
    tests
}

/// PostgreSQL in other versions than Debian's: at a push the store's suites on the oldest and on the newest one, on the
/// newest as the role of relays; with `--all` everything on every version. A server that cannot be had is a failure and
/// says why.
fn other_versions(steps: &Steps<'_>, extent: Extent) -> Result<(), Stop> {
    let push = [("postgres-14", vec![ON_A_SERVER]), ("postgres-18", vec![AS_RELAY])];
    for version in other_postgres_versions() {
        let (names, of, part) = match (extent, push.iter().find(|(name, _)| *name == version)) {
            (Extent::Push, None) => continue,
            (Extent::Push, Some((_, part))) => (vec![version], &OF_POSTGRES[..1], part.as_slice()),
            (Extent::All, _) => (vec![version, "all"], &OF_POSTGRES[..], ["--skip", ON_MONGODB].as_slice()),
        };
        let servers = steps.timed(version, || Ok(Servers::start_named(steps.executor, &names)?))?;
        let mut tests = tests(Packages::Only(of), part)?;
        tests.envs(servers.variables());
        let outcome = steps.run(&format!("tests on {version}"), tests);
        if outcome.is_err() {
            servers.complaints().iter().for_each(|line| eprintln!("{line}"));
        }
        outcome?;
    }
    if extent == Extent::Push {
        return Ok(());
    }
    other_mysql(steps)?;
    mongodb(steps)?;
    real_kafka(steps)
}

/// The store for MongoDB, and what the binary and the examples do with it.
fn mongodb(steps: &Steps<'_>) -> Result<(), Stop> {
    let servers =
        steps.timed("mongodb", || Ok(Servers::start_named(steps.executor, &["all", "mongodb"])?))?;
    let parts: [(&[&str], &[&str]); 2] = [
        (&[STORE_OF_MONGODB], &[]),
        (&["pillarbox-bench", "pillarbox-cli", "pillarbox-examples"], &[ON_MONGODB]),
    ];
    for (packages, part) in parts {
        let mut tests = tests(Packages::Only(packages), part)?;
        tests.envs(servers.variables());
        steps.run(&format!("tests on mongodb, {}", packages.join(" and ")), tests)?;
    }
    Ok(())
}

/// The transport for Kafka on a broker that is not a part of its client. It is built for half an hour, once.
fn real_kafka(steps: &Steps<'_>) -> Result<(), Stop> {
    let servers = steps.timed("kafka", || Ok(Servers::start_named(steps.executor, &["kafka"])?))?;
    let mut tests = tests(Packages::Only(&["pillarbox-transport-kafka"]), &[ON_NISSHI])?;
    tests.envs(servers.variables());
    steps.run("tests on kafka", tests)
}

/// The store for MariaDB on MySQL, what the binary and the examples do with it, and what two nodes of a cluster share.
fn other_mysql(steps: &Steps<'_>) -> Result<(), Stop> {
    let of_binary = ["pillarbox-bench", "pillarbox-cli", "pillarbox-examples"];
    let store = [STORE_OF_MYSQL];
    let on_mysql = [(&store[..], &["--skip", ON_TWO_NODES][..]), (&of_binary, &ON_MYSQL)];
    let on_galera = [(&store[..], &["clusters", ON_TWO_NODES][..])];
    for (name, parts) in [("mysql", &on_mysql[..]), ("galera", &on_galera)] {
        let servers = steps.timed(name, || Ok(Servers::start_named(steps.executor, &["all", name])?))?;
        for (packages, part) in parts {
            let mut tests = tests(Packages::Only(packages), part)?;
            tests.envs(servers.variables());
            steps.run(&format!("tests on {name}, {}", packages.join(" and ")), tests)?;
        }
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

/// The suites on a server that is talked to directly.
const ON_A_SERVER: &str = "direct::";

/// The suite as the role of relays: a third of the store's tests, so that a push runs it on one version only.
const AS_RELAY: &str = "as_the_relays_role";

/// The tests on nisshi, which no push waits for. The others of Kafka run on the fake cluster of its client.
const ON_NISSHI: &str = "on_nisshi";

/// The store for MongoDB, whose tests are a sixth of all, and other tests on that server.
const STORE_OF_MONGODB: &str = "pillarbox-store-mongodb";
const ON_MONGODB: &str = "mongodb";

/// The store for MariaDB and MySQL, other tests on these servers, some of them on PostgreSQL too, and those that need two
/// nodes of a cluster.
const STORE_OF_MYSQL: &str = "pillarbox-store-mysql";
const ON_MYSQL: [&str; 4] = ["mysql", "mariadb", "_on_servers_", "_on_every_server"];
const ON_TWO_NODES: &str = "on_two_nodes";

/// Worlds of each kind that the simulator tries with `--all`: more than a thousand together. A push tries three hundred.
const SEEDS_WITH_ALL: &str = "200";

/// Tests that a push leaves to `--all`, by parts of their names: they take minutes and repeat what others show.
const ONLY_WITH_ALL: [&str; 21] = [
    AS_RELAY,
    // A package of its own, which is compiled with all that it depends on. What it calls is also in the examples of the
    // documentation.
    "the_shop_in_rust_places_its_order",
    // A push has one storm: PostgreSQL and JetStream. Each database and broker has its own tests with kills and cuts.
    "in_a_storm_on_",
    "out_of_order_in_a_queue_that_refuses",
    "out_of_order_in_a_rabbitmq_stream",
    "out_of_order_in_a_redis_stream",
    // Suites that a push runs on one of two servers, kinds of queues or ways to connect: on classic queues of RabbitMQ, on
    // FIFO queues of SQS, on the newer NATS, on Redis, on PostgreSQL without a pooler.
    "suites::quorum::",
    "suites::standard::",
    "suites::debian::",
    "suites::on_valkey::",
    "pooled::",
    // The consumer's suite: a push runs it from every broker into SQLite, and from RabbitMQ into PostgreSQL.
    "redis_postgres::",
    "nats_postgres::",
    "mqtt_postgres::",
    "kafka_postgres::",
    // Servers that hang for half a minute. A push has Redis.
    "a_nats_server_that_hangs",
    "an_mqtt_server_that_hangs",
    // A push has outages that end as soon as they were seen.
    "away_for_half_a_minute_under_load",
    // They are fetched first.
    "servers_that_are_started_on_request_only",
    // A large outbox on both databases, only to see that the measurement runs.
    "the_page_is_measured_over_a_large_outbox",
    // A million entries are inserted first, for half a minute. A push looks at the same plans beside fewer of them.
    "beside_1_000_000_settled_entries",
];

/// Whose tests.
#[derive(Clone, Copy)]
enum Packages<'a> {
    Only(&'a [&'a str]),
    AllBut(&'a str),
    /// All but the store for MongoDB, and but the suites of the store for PostgreSQL: a push runs these on the oldest and on
    /// the newest version.
    OfAPush,
}

/// The command that runs tests, of the whole workspace: a package by itself has dependencies with fewer features, which
/// are built anew.
fn runner(arguments: &[&str]) -> Command {
    let mut runner = if find_program("cargo-nextest").is_none() {
        workspace(&["test"])
    } else {
        workspace(&["nextest", "run"])
    };
    runner.args(arguments);
    runner
}

/// Has clippy look at our own crates while they are built, as `cargo clippy` does while they are checked. Every build has
/// to say the same, or cargo builds them anew.
fn linted(mut command: Command) -> crate::Result<Command> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let driver = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).join("bin/clippy-driver");
    if !driver.is_file() {
        return Err(format!("{} is missing; add clippy to the toolchain", driver.display()).into());
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    command.env("CLIPPY_ARGS", ["-D", "warnings"].map(|word| format!("{word}{BETWEEN_WORDS}")).concat());
    if env::var_os("CI").is_some() {
        // What would speed up the next build is not kept, and takes a minute to write.
        command.env("CARGO_INCREMENTAL", "0");
    }
    Ok(command)
}

/// What stands between the arguments that clippy's driver reads from its environment.
const BETWEEN_WORDS: &str = "__CLIPPY_HACKERY__";

/// The tests of these packages: all of them, or those that `part` selects.
fn tests(packages: Packages<'_>, part: &[&str]) -> Result<Command, Stop> {
    let mut tests = runner(&["--no-fail-fast"]);
    if find_program("cargo-nextest").is_some() {
        let suites = format!("package(={}) & test(/{ON_A_SERVER}/)", OF_POSTGRES[0]);
        let of = match packages {
            Packages::Only(names) => {
                names.iter().map(|name| format!("package(={name})")).collect::<Vec<_>>().join(" | ")
            }
            Packages::AllBut(name) => format!("not package(={name})"),
            Packages::OfAPush => format!("not package(={STORE_OF_MONGODB}) & not ({suites})"),
        };
        // A test waits for its server half of the time.
        let threads = 2 * thread::available_parallelism()?.get();
        tests.args(["--filterset", &of, "--test-threads", &threads.to_string()]);
        // It reports on stderr; our stdout is the test runner's report, whichever runner it is.
        tests.stderr(io::stdout().as_fd().try_clone_to_owned()?);
    } else {
        match packages {
            // Not of the whole workspace.
            Packages::Only(names) => {
                tests = cargo(&["test", "--no-fail-fast", "--all-features", "--locked"]);
                tests.args(names.iter().flat_map(|name| ["--package", name]));
            }
            Packages::AllBut(name) => drop(tests.args(["--exclude", name])),
            Packages::OfAPush => drop(tests.args(["--exclude", STORE_OF_MONGODB])),
        }
    }
    tests.arg("--").args(part);
    // What a failed test says is the line to read, and a backtrace hides it.
    tests.env("RUST_BACKTRACE", "0");
    Ok(linted(tests)?)
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
