//! Gets peers from their registries into `target/peers`, once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Places;
use super::ours::as_typed;
use super::peers::{Language, Peer};
use crate::Result;
use crate::exec::Executor;
use crate::process::tail;

/// The interpreter of the peers in Python, below `target/peers`.
pub(crate) const PYTHON: &str = "python/bin/python";
/// The program of the peers in Rust, below `target/peers`.
pub(crate) const RUST: &str = "rust/target/release/peers";
/// That of those on MariaDB and MySQL.
pub(crate) const RUST_MYSQL: &str = "rust/mysql/target/release/peers-mysql";

/// A shell's exit code of what a signal ended is more than this.
const SIGNALLED: u8 = 128;

/// What could be installed, and why not what could not.
pub(crate) struct Installed(BTreeMap<Language, std::result::Result<(), String>>);

impl Installed {
    /// Installs the languages that these peers need. That an installer fails is told for each peer and is no error;
    /// that we were interrupted is.
    pub(crate) fn new(executor: &Executor, places: &Places, peers: &[Peer]) -> Result<Self> {
        let mut languages = BTreeMap::new();
        for peer in peers {
            if languages.contains_key(&peer.language) {
                continue;
            }
            let installed = install(executor, places, peer.language).map_err(|error| error.to_string());
            if let Err(error) = &installed {
                eprintln!("bench: {:?}: {error}", peer.language);
                if error.contains("was interrupted") {
                    return Err(error.clone().into());
                }
            }
            // The first line is for the table.
            let line = |error: String| error.lines().next().unwrap_or_default().to_owned();
            languages.insert(peer.language, installed.map_err(line));
        }
        Ok(Self(languages))
    }

    /// Whether this one is there.
    pub(crate) fn of(&self, peer: &Peer) -> Result<()> {
        match self.0.get(&peer.language) {
            Some(Err(error)) => Err(format!("could not be installed: {error}").into()),
            _ => Ok(()),
        }
    }
}

fn install(executor: &Executor, places: &Places, language: Language) -> Result<()> {
    let (from, name) = match language {
        Language::Node => (places.sources.join("node"), "node"),
        Language::Python => (places.sources.join("python"), "python"),
        // One package is in the other's directory, and takes the clock from there.
        Language::Rust | Language::RustMysql => (places.sources.join("rust"), "rust"),
    };
    let to = places.peers.join(name);
    let steps = Steps { executor, log: places.peers.join(format!("{name}.log")) };
    match language {
        Language::Node => {
            copy(&from, &to)?;
            steps.run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&to))
        }
        Language::Python => {
            if !places.peers.join(PYTHON).exists() {
                steps.run(Command::new("python3").args(["-m", "venv"]).arg(&to))?;
            }
            let mut pip = Command::new(places.peers.join(PYTHON));
            pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--requirement"]);
            steps.run(pip.arg(from.join("requirements.txt")))
        }
        Language::Rust | Language::RustMysql => {
            // A package of its own, with a lock file of its own: nothing of it enters ours.
            copy(&from, &to)?;
            let package = if language == Language::RustMysql { to.join("mysql") } else { to };
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["build", "--release", "--target-dir", "target"]).current_dir(package);
            as_typed(&mut build);
            steps.run(build.env_remove("CARGO_TARGET_DIR"))
        }
    }
}

/// Copies files, and directories of files: installers write beside what they read, and nothing is to be written there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else if fs::read(entry.path())? != fs::read(&to).unwrap_or_default() {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Commands whose output is only shown when they fail.
struct Steps<'a> {
    executor: &'a Executor,
    log: PathBuf,
}

impl Steps<'_> {
    fn run(&self, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_owned();
        let shown = Path::new(&program).file_name().unwrap_or_default().display().to_string();
        eprintln!("bench: {shown}, which takes a while the first time");
        let log = File::create(&self.log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        match self.executor.run(command)? {
            0 => Ok(()),
            code if code > SIGNALLED => Err(format!("{shown} was interrupted").into()),
            code => Err(format!("{shown} failed with exit code {code}\n{}", tail(&self.log)).into()),
        }
    }
}
