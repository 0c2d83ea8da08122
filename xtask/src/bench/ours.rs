//! Pillarbox and the raw loops, by `crates/bench`.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::Places;
use super::options::Options;
use super::run::Runner;
use super::table::Row;
use crate::Result;
use crate::exec::Executor;

/// What measures.
const PACKAGE: &str = "pillarbox-bench";
/// Entries of each drain.
const ENTRIES: u32 = 50_000;
/// Sagas of each drain of sagas, and the steps of each.
const SAGAS_DRAINED: u32 = 10_000;
const STEPS: u32 = 3;

/// What a row of ours is called, where its rate is in the JSON of a bench, and how it was set up.
const FIGURES: [(&str, &str, &str); 7] = [
    (
        "Pillarbox, lanes, deleted",
        "/drain/lanes/deleted/relay_per_second",
        "order = \"key\", retention.delivered = \"0s\"",
    ),
    ("Pillarbox, lanes, kept", "/drain/lanes/kept/relay_per_second", "order = \"key\""),
    ("Pillarbox, rows, deleted", "/drain/rows/deleted/relay_per_second", "retention.delivered = \"0s\""),
    ("Pillarbox, rows, kept", "/drain/rows/kept/relay_per_second", "the default"),
    (
        "raw lane loop, deleted",
        "/drain/lane_deleted/per_second",
        "plain SQL: read above a cursor, settle by DELETE",
    ),
    (
        "raw lane loop, kept",
        "/drain/lane_kept/per_second",
        "plain SQL: read above a cursor, settle by UPDATE",
    ),
    ("raw classic loop", CLASSIC, "plain SQL: claim by UPDATE … SKIP LOCKED, settle by UPDATE"),
];
/// The same of sagas, in steps a second.
const SAGAS: [(&str, &str, &str); 2] = [
    (
        "Pillarbox, sagas, at once",
        "/sagas/group_per_second",
        "three steps a saga, settled with the saga and its audit records",
    ),
    ("Pillarbox, sagas, in order", "/sagas/ordered_per_second", "the same, one step after the other"),
];
/// What everything is compared with.
pub(crate) const CLASSIC: &str = "/drain/classic/per_second";

/// The rows of ours, empty.
pub(crate) fn rows(options: &Options) -> Vec<Row> {
    if !options.wants_ours() {
        return Vec::new();
    }
    let of = |jobs| move |(name, pointer, setting)| Row::of_ours(name, pointer, setting, jobs);
    let steps = options.jobs(SAGAS_DRAINED) * STEPS;
    FIGURES.into_iter().map(of(options.jobs(ENTRIES))).chain(SAGAS.into_iter().map(of(steps))).collect()
}

/// Takes away what the cargo that runs us has set for this package: build scripts look at it, and half of everything
/// would be built anew each time.
pub(crate) fn as_typed(command: &mut Command) {
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(ours) {
            command.env_remove(name);
        }
    }
}

/// The measurements, built as what is shipped.
pub(crate) struct Ours {
    cargo: std::ffi::OsString,
    root: std::path::PathBuf,
}

impl Ours {
    /// Builds it.
    pub(crate) fn build(executor: &Executor, places: &Places) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let ours = Self { cargo, root: places.root.clone() };
        let mut build = ours.cargo(&["build", "--profile", "dist", "--package", PACKAGE]);
        match executor.run(build.stdin(Stdio::null()))? {
            0 => Ok(ours),
            code => Err(format!("the build of {PACKAGE} failed with exit code {code}").into()),
        }
    }

    /// One round of drains, those of sagas under `sagas`.
    pub(crate) fn drain(&self, runner: &Runner<'_>, options: &Options) -> Result<Value> {
        let (entries, sagas) = (options.jobs(ENTRIES).to_string(), options.jobs(SAGAS_DRAINED).to_string());
        let mut drained = self.bench(runner, &["--only", "drain", "--repeat", "1", "--events", &entries])?;
        drained["sagas"] = self.bench(runner, &["--sagas", &sagas, "--repeat", "1"])?;
        Ok(drained)
    }

    /// A measurement on PostgreSQL.
    pub(crate) fn bench(&self, runner: &Runner<'_>, arguments: &[&str]) -> Result<Value> {
        let mut bench = self.command();
        bench.args(["--database", &runner.url()]).args(arguments);
        runner.said(&mut bench).map_err(|error| format!("pillarbox-bench: {error}").into())
    }

    /// A measurement on SQLite.
    pub(crate) fn bench_embedded(&self, runner: &Runner<'_>, arguments: &[&str]) -> Result<Value> {
        runner.said(self.command().args(arguments))
    }

    /// The program that measures; what it prints is JSON.
    pub(crate) fn command(&self) -> Command {
        let package = ["--package", PACKAGE, "--", "--json", "--quiet"];
        self.cargo(&[&["run", "--quiet", "--profile", "dist"], &package[..]].concat())
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(arguments).current_dir(&self.root);
        as_typed(&mut command);
        command
    }
}
