//! A Python with the clients that tests read our messages back with, in a virtual environment under `target`.
//!
//! No server, but tests of brokers need it like one: it is named, started and passed on in the same way.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ground::Ground;
use super::{Facts, Server, Up};
use crate::{Result, root};

pub(crate) const NAME: &str = "python";

/// Debian splits what makes environments from Python itself.
pub(crate) const PACKAGES: &[&str] = &["python3-venv"];

/// The first one on the path that can make environments; Debian's own otherwise.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// What is installed, and the mark of an environment that is complete.
const REQUIREMENTS: &str = include_str!("../../python-requirements.txt");
const MARK: &str = "pillarbox-requirements.txt";

pub(crate) struct Python;

impl Server for Python {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn is_installed(&self) -> bool {
        is_installed()
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let environment = directory()?;
        fs::create_dir_all(&environment)?;
        // Two runs at the same time make one environment: the second waits here and then finds it.
        let lock = File::create(environment.with_extension("lock"))?;
        lock.lock()?;
        if !is_complete(&environment) {
            make(ground, &environment)?;
        }
        drop(lock);
        let variables = vec![("PILLARBOX_TEST_PYTHON", interpreter(&environment).display().to_string())];
        Ok(Up { facts: Facts { name: NAME, port: None, variables }, processes: Vec::new() })
    }
}

/// Where the environment is.
pub(crate) fn directory() -> Result<PathBuf> {
    Ok(root()?.join("target/python"))
}

/// A program that one of the packages brought along, by the end of its path.
pub(crate) fn program(end: &str) -> Result<PathBuf> {
    let environment = directory()?;
    let packages = fs::read_dir(environment.join("lib"))?
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages")))
        .find(|path| path.is_dir())
        .ok_or("the Python environment has no packages")?;
    [environment.join("bin"), packages]
        .into_iter()
        .map(|place| place.join(end))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("the Python environment has no {end}").into())
}

pub(crate) fn is_installed() -> bool {
    base_interpreter().is_some()
}

fn base_interpreter() -> Option<&'static str> {
    INTERPRETERS.into_iter().find(|interpreter| {
        let mut question = Command::new(interpreter);
        question.args(["-c", "import ensurepip, venv"]).stdout(Stdio::null()).stderr(Stdio::null());
        question.status().is_ok_and(|status| status.success())
    })
}

fn interpreter(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}

/// Whether the environment was made from the requirements as they are now, and its interpreter is still there.
fn is_complete(environment: &Path) -> bool {
    fs::read_to_string(environment.join(MARK)).is_ok_and(|text| text == REQUIREMENTS)
        && interpreter(environment).is_file()
}

fn make(ground: &Ground, environment: &Path) -> Result<()> {
    eprintln!("xtask: creating a Python environment (once)");
    let base = base_interpreter().ok_or("found no python3 with venv and ensurepip; install python3-venv")?;
    ground.run(Command::new(base).args(["-m", "venv", "--clear"]).arg(environment))?;
    let requirements = environment.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    let mut pip = Command::new(interpreter(environment));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--requirement"]);
    ground.run(pip.arg(&requirements))?;
    Ok(fs::rename(requirements, environment.join(MARK))?)
}
