//! The repository as tests see it: its files, its packages and its lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Directories that are made, not written.
const MADE: [&str; 5] = [".git", ".services", "__pycache__", "node_modules", "target"];

pub(crate) struct File {
    /// Relative to the repository's root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Asked at run time: two checkouts that share a target directory share this binary as well.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("run by cargo");
    Path::new(&package).parent().unwrap().to_path_buf()
}

/// Every text file of the repository, sorted by path.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                if !MADE.iter().any(|name| entry.file_name() == *name) {
                    directories.push(path);
                }
            } else if kind.is_file() {
                let Ok(text) = fs::read_to_string(&path) else { continue };
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "this is not the repository's root");
    files
}

/// The packages of this workspace, as `cargo metadata` describes them. Needs no network.
pub(crate) fn packages() -> Vec<Value> {
    described(&["--no-deps"])
}

/// The folders under `crates/` of what is published and has an interface: the binary has none but its commands.
pub(crate) fn published() -> BTreeSet<String> {
    let is_published = |package: &Value| !package["publish"].as_array().is_some_and(Vec::is_empty);
    let packages = packages().into_iter().filter(is_published);
    let folders = packages.filter_map(|package| {
        let manifest = package["manifest_path"].as_str()?.strip_suffix("/Cargo.toml")?;
        Some(manifest.rsplit_once("/crates/")?.1.to_owned())
    });
    folders.filter(|folder| folder != "cli").collect()
}

/// The packages of this workspace and everything that they are built from on this platform.
pub(crate) fn packages_and_dependencies() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    described(&["--all-features", "--filter-platform", host])
}

fn described(arguments: &[&str]) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    assert!(packages.len() > 5, "only {} packages", packages.len());
    packages
}

/// What each locked package depends on, by name. Versions of one name are merged: for the question whether
/// something can be reached that only errs on the safe side.
pub(crate) fn locked() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut graph: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut package = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            package = name.trim_matches('"').to_owned();
            graph.entry(package.clone()).or_default();
        } else if let Some(dependency) = line.strip_prefix(" \"") {
            let name = dependency.split([' ', '"']).next().unwrap();
            graph.get_mut(&package).unwrap().push(name.to_owned());
        }
    }
    assert!(graph.len() > 100, "only {} packages are locked", graph.len());
    graph
}
