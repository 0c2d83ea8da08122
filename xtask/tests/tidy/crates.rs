//! Every package says what it is and follows the same lints.

use std::fs;
use std::path::Path;

use crate::repository::{packages, packages_and_dependencies};

#[test]
fn every_crate_root_says_what_the_crate_is() {
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let path = target["src_path"].as_str().unwrap();
            let text = fs::read_to_string(path).unwrap();
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            assert!(
                first.starts_with("//! "),
                "{path} does not begin with a //! comment that says what it is"
            );
        }
    }
}

#[test]
fn every_package_follows_the_lints_of_the_workspace() {
    for package in packages() {
        let path = Path::new(package["manifest_path"].as_str().unwrap());
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
        assert!(
            lines.next() == Some("workspace = true"),
            "{} lacks [lints] workspace = true",
            path.display()
        );
    }
}

/// The oldest Rust that can build this is the newest that a dependency asks for. Clippy's `incompatible_msrv` keeps our
/// own code to it.
#[test]
fn the_oldest_rust_is_the_one_that_the_dependencies_ask_for() {
    let version = |package: &serde_json::Value| -> Option<Vec<u32>> {
        let version = package["rust_version"].as_str()?;
        let mut parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        parts.resize(3, 0);
        Some(parts)
    };
    let all = packages_and_dependencies();
    let (ours, theirs): (Vec<_>, Vec<_>) = all.iter().partition(|package| package["source"].is_null());
    let (asked, by) = theirs
        .into_iter()
        .filter_map(|package| Some((version(package)?, package["name"].as_str().unwrap())))
        .max()
        .unwrap();
    for package in ours {
        let name = package["name"].as_str().unwrap();
        assert_eq!(version(package), Some(asked.clone()), "rust-version of {name}; {by} asks for {asked:?}");
    }
}
