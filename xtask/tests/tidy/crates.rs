//! Every package says what it is and follows the same lints.

use std::fs;
use std::path::Path;

use serde_json::Value;

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

#[test]
fn every_published_package_can_be_found_and_is_documented_with_all_features() {
    let is_published = |package: &&Value| !package["publish"].as_array().is_some_and(Vec::is_empty);
    let packages = packages();
    for package in packages.iter().filter(is_published) {
        let name = package["name"].as_str().unwrap();
        for field in ["description", "license", "readme"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        for field in ["keywords", "categories"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {field}, a registry takes 1 to 5");
        }
        let docs = &package["metadata"]["docs"]["rs"];
        assert_eq!(docs["all-features"], true, "[package.metadata.docs.rs] of {name}");
        let targets = package["targets"].as_array().unwrap();
        let kind = |kind: &str| targets.iter().find(|target| target["kind"][0] == kind);
        // The library of the binary is for its own tests.
        if let (Some(library), None) = (kind("lib"), kind("bin"))
            && package["features"].as_object().is_some_and(|features| !features.is_empty())
        {
            let with =
                docs["rustdoc-args"].as_array().is_some_and(|args| args.iter().any(|arg| arg == "docsrs"));
            let root = fs::read_to_string(library["src_path"].as_str().unwrap()).unwrap();
            let with = with && root.contains("#![cfg_attr(docsrs, feature(doc_cfg))]");
            assert!(with, "the documentation of {name} does not show which feature has an item");
        }
    }
}

/// A dependency that asks for a newer Rust than all others, and the packages that always have it. In `pillarbox` it is a
/// feature.
const NEWER: (&str, [&str; 4]) =
    ("krafka", ["pillarbox-bench", "pillarbox-cli", "pillarbox-examples", "pillarbox-transport-kafka"]);

/// The oldest Rust that can build this is the newest that a dependency asks for. Clippy's `incompatible_msrv` keeps our
/// own code to it.
#[test]
fn the_oldest_rust_is_the_one_that_the_dependencies_ask_for() {
    let version = |package: &Value| -> Option<Vec<u32>> {
        let version = package["rust_version"].as_str()?;
        let mut parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        parts.resize(3, 0);
        Some(parts)
    };
    let all = packages_and_dependencies();
    let (ours, theirs): (Vec<_>, Vec<_>) = all.iter().partition(|package| package["source"].is_null());
    let asked = |is_newer: bool| {
        let theirs = theirs.iter().filter(|package| is_newer || package["name"] != NEWER.0);
        theirs
            .filter_map(|package| Some((version(package)?, package["name"].as_str().unwrap())))
            .max()
            .unwrap()
    };
    for package in ours {
        let name = package["name"].as_str().unwrap();
        let (asked, by) = asked(NEWER.1.contains(&name));
        assert_eq!(version(package), Some(asked.clone()), "rust-version of {name}; {by} asks for {asked:?}");
    }
    assert_eq!(asked(true).1, NEWER.0, "no exception is needed any more");
}
