//! `cargo xtask ci`: every check of a push, in the order in which a mistake is cheapest to learn about.
//!
//! All steps use the dev profile and all features, so that nothing is compiled for one step alone.

use std::env;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::exec::Executor;
use crate::services::Servers;
use crate::{Result, root};

/// What every command over the whole workspace gets, so that all of them mean the same build.
const WORKSPACE: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// Where a command writes what it reports.
#[derive(Clone, Copy)]
enum Report {
    AsItIs,
    /// cargo-nextest reports on stderr; our stdout is the test runner's report whichever runner it is.
    ToStdout,
}

/// Runs everything and returns the exit code of the first step that failed.
pub(crate) fn run() -> Result<u8> {
    let begin = Instant::now();
    let root = root()?;
    let executor = Executor::new()?;
    let mut steps = Steps { executor: &executor, root: &root, passed: 0 };
    let code = steps.all()?;
    let seconds = begin.elapsed().as_secs_f64();
    io::stdout().flush()?;
    match code {
        0 => eprintln!("ci: {} steps passed in {seconds:.0} s", steps.passed),
        _ => eprintln!("ci: failed after {} passed steps, in {seconds:.0} s", steps.passed),
    }
    Ok(code)
}

struct Steps<'a> {
    executor: &'a Executor,
    root: &'a Path,
    passed: u32,
}

impl Steps<'_> {
    fn all(&mut self) -> Result<u8> {
        let cargo = |words: &[&str]| {
            let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.args(words);
            command
        };
        let workspace = |words: &[&str]| {
            let mut command = cargo(words);
            command.args(WORKSPACE);
            command
        };

        let mut clippy = workspace(&["clippy", "--all-targets"]);
        clippy.args(["--", "-D", "warnings"]);
        let mut doc = workspace(&["doc", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        for (title, command) in
            [("format", cargo(&["fmt", "--all", "--check"])), ("clippy", clippy), ("documentation", doc)]
        {
            let code = self.step(title, command, Report::AsItIs)?;
            if code != 0 {
                return Ok(code);
            }
        }

        // Before the tests, so that the last lines of all output are the test runner's own.
        if is_there("cargo-deny") {
            let code = self.step("dependency policy", cargo(&["deny", "check"]), Report::AsItIs)?;
            if code != 0 {
                return Ok(code);
            }
        } else {
            eprintln!("\n==> dependency policy: SKIPPED, cargo-deny is not installed");
        }

        let servers = self.timed("servers", |steps| Servers::start_all(steps.executor))?;
        let with_nextest = is_there("cargo-nextest");
        let (doc_tests, tests) = if with_nextest {
            // nextest does not run the examples in the documentation, and it is the last to speak.
            (Some(workspace(&["test", "--doc"])), workspace(&["nextest", "run"]))
        } else {
            (None, workspace(&["test", "--no-fail-fast"]))
        };
        if let Some(mut doc_tests) = doc_tests {
            doc_tests.envs(servers.variables());
            let code = self.step("documentation tests", doc_tests, Report::AsItIs)?;
            if code != 0 {
                return Ok(code);
            }
        }
        let mut tests = tests;
        tests.envs(servers.variables());
        self.step("tests", tests, if with_nextest { Report::ToStdout } else { Report::AsItIs })
    }

    fn step(&mut self, title: &str, mut command: Command, report: Report) -> Result<u8> {
        command.current_dir(self.root).stdin(Stdio::null());
        if let Report::ToStdout = report {
            command.stderr(io::stdout().as_fd().try_clone_to_owned()?);
        }
        let code = self.timed(title, |steps| steps.executor.run(&mut command))?;
        if code == 0 {
            self.passed += 1;
        }
        Ok(code)
    }

    fn timed<T>(&mut self, title: &str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        eprintln!("\n==> {title}");
        let begin = Instant::now();
        let outcome = work(self);
        io::stdout().flush()?;
        eprintln!("<== {title}: {:.1} s", begin.elapsed().as_secs_f64());
        outcome
    }
}

/// Whether a program is on the path.
fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
