//! A folder of Node packages under `target`: what tests run the examples for Node with, and what checks the page.
//!
//! No server, as [`python`](super::python) is none, and treated in the same way.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ground::Ground;
use super::{Facts, Server, Up};
use crate::{Result, root};

pub(crate) const NAME: &str = "node";

/// Brings Node itself along, and what builds packages with a part in C++.
const PACKAGES: &[&str] = &["npm"];

/// What is installed. The lock file has every version and checksum, and is the mark of a folder that is complete.
const MANIFEST: &str = include_str!("../../node/package.json");
const LOCK: &str = include_str!("../../node/package-lock.json");
const MARK: &str = "pillarbox-packages.json";

/// Fails where the part in C++ was neither found nor built.
const CHECK: &str = "new (require('better-sqlite3'))(':memory:').close(); require('pg'); require('mysql2'); require('mongodb'); require('axe-core')";

pub(crate) struct Node;

impl Server for Node {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn is_installed(&self) -> bool {
        ["node", "npm"].into_iter().all(|program| {
            let mut question = Command::new(program);
            question.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            question.status().is_ok_and(|status| status.success())
        })
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let folder = directory()?;
        fs::create_dir_all(&folder)?;
        // Two runs at the same time make one folder: the second waits here and then finds it.
        let lock = File::create(folder.with_extension("lock"))?;
        lock.lock()?;
        if !is_complete(&folder) {
            make(ground, &folder)?;
        }
        drop(lock);
        let variables = vec![("PILLARBOX_TEST_NODE_MODULES", packages(&folder).display().to_string())];
        Ok(Up { facts: Facts { name: NAME, port: None, variables }, processes: Vec::new() })
    }
}

/// Where the folder is.
fn directory() -> Result<PathBuf> {
    Ok(root()?.join("target/node"))
}

fn packages(folder: &Path) -> PathBuf {
    folder.join("node_modules")
}

/// Whether the folder was made from the lock file as it is now.
fn is_complete(folder: &Path) -> bool {
    fs::read_to_string(folder.join(MARK)).is_ok_and(|text| text == LOCK) && packages(folder).is_dir()
}

fn make(ground: &Ground, folder: &Path) -> Result<()> {
    eprintln!("xtask: installing packages for Node, and building one (once; some minutes)");
    fs::write(folder.join("package.json"), MANIFEST)?;
    fs::write(folder.join("package-lock.json"), LOCK)?;
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(arguments).current_dir(folder);
        npm
    };
    // The scripts of packages are run for the one that needs it.
    ground.run(&mut npm(&["ci", "--no-audit", "--no-fund", "--ignore-scripts"]))?;
    ground.run(&mut npm(&["rebuild", "better-sqlite3"]))?;
    ground.run(Command::new("node").args(["-e", CHECK]).current_dir(folder))?;
    Ok(fs::write(folder.join(MARK), LOCK)?)
}
