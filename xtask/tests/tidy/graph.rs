//! Dependencies point one way: `cli -> {dashboard, engine, store-*, transport-*} -> host -> core`. A store or a transport does
//! not know the engine or another one, the engine knows neither, and the core knows nobody.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::repository::{locked, packages};

/// Where a package stands. A name that ends in `*` stands for a family.
struct Rule {
    package: &'static str,
    /// The packages of this workspace that it may use. Tests may use what is in [`FOR_TESTS`] as well.
    may_use: &'static [&'static str],
    /// What it must not even reach through others.
    must_not_reach: &'static [&'static str],
}

/// Databases and brokers are adapters: only packages that compose an application name them.
const EVERYTHING: &[&str] = &["pillarbox*"];

const RULES: &[Rule] = &[
    Rule { package: "pillarbox-core", may_use: &[], must_not_reach: &["tokio", "sqlx*"] },
    Rule { package: "pillarbox-host", may_use: &["pillarbox-core"], must_not_reach: &["tokio", "sqlx*"] },
    Rule {
        package: "pillarbox-engine",
        may_use: &["pillarbox-core", "pillarbox-host"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-metrics",
        may_use: &["pillarbox-core", "pillarbox-engine", "pillarbox-host"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-otel",
        may_use: &["pillarbox-core", "pillarbox-host"],
        must_not_reach: &["sqlx*", "tokio"],
    },
    Rule {
        package: "pillarbox-dashboard",
        may_use: &["pillarbox-core", "pillarbox-host"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-store-*",
        may_use: &["pillarbox-core", "pillarbox-host"],
        must_not_reach: &[],
    },
    Rule {
        package: "pillarbox-transport-*",
        may_use: &["pillarbox-core", "pillarbox-host"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-testkit",
        may_use: &["pillarbox-core", "pillarbox-engine", "pillarbox-host"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-conformance",
        may_use: &["pillarbox-core", "pillarbox-engine", "pillarbox-host", "pillarbox-testkit"],
        must_not_reach: &["sqlx*"],
    },
    Rule {
        package: "pillarbox-sim",
        may_use: &["pillarbox-core", "pillarbox-engine", "pillarbox-host", "pillarbox-testkit"],
        must_not_reach: &["sqlx*"],
    },
    Rule { package: "pillarbox", may_use: EVERYTHING, must_not_reach: &[] },
    Rule { package: "pillarbox-cli", may_use: EVERYTHING, must_not_reach: &[] },
    Rule { package: "pillarbox-bench", may_use: EVERYTHING, must_not_reach: &[] },
    Rule { package: "pillarbox-examples", may_use: EVERYTHING, must_not_reach: &[] },
    Rule { package: "xtask", may_use: &[], must_not_reach: &["tokio"] },
];

/// What tests of every package may use.
const FOR_TESTS: &[&str] = &["pillarbox-conformance", "pillarbox-engine", "pillarbox-testkit"];

/// What an application tests itself with must not bring the suites along, not even for its own tests.
const NEVER: (&str, &str) = ("pillarbox-testkit", "pillarbox-conformance");

/// One TLS stack (rustls with ring), and nothing that needs a C toolchain beyond SQLite's and ring's own.
const NEVER_BUILT: [&str; 4] = ["aws-lc-sys", "cmake", "native-tls", "openssl-sys"];

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(name).collect();
    for package in &packages {
        let rule = rule_of(name(package));
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = name(dependency);
            let for_tests = dependency["kind"] == "dev" && matches_any(used, FOR_TESTS);
            assert_ne!((name(package), used), NEVER);
            assert!(
                !ours.contains(used) || for_tests || matches_any(used, rule.may_use),
                "{} must not depend on {used}; it may use {:?}",
                name(package),
                rule.may_use
            );
        }
    }
}

#[test]
fn a_pure_package_reaches_no_runtime_and_no_driver() {
    let locked = locked();
    for package in &packages() {
        let rule = rule_of(name(package));
        let mut seen = BTreeSet::new();
        let mut next: Vec<String> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| name(dependency).to_owned())
            .collect();
        while let Some(reached) = next.pop() {
            assert!(
                !matches_any(&reached, rule.must_not_reach),
                "{} reaches {reached}, which it must not",
                name(package)
            );
            if seen.insert(reached.clone()) {
                // The lock file does not tell what only tests use, so our own packages are looked at one by one.
                let foreign = !reached.starts_with("pillarbox");
                next.extend(locked.get(&reached).filter(|_| foreign).into_iter().flatten().cloned());
            }
        }
    }
}

#[test]
fn no_second_tls_stack_is_in_the_graph() {
    let locked = locked();
    for package in NEVER_BUILT {
        let by: Vec<&String> = locked
            .iter()
            .filter(|(_, uses)| uses.iter().any(|used| used == package))
            .map(|(by, _)| by)
            .collect();
        assert!(!locked.contains_key(package), "{package} is in Cargo.lock, because of {by:?}");
    }
}

fn rule_of(package: &str) -> &'static Rule {
    RULES
        .iter()
        .find(|rule| matches(package, rule.package))
        .unwrap_or_else(|| panic!("{package} is new: say in RULES where it stands"))
}

fn matches_any(name: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| matches(name, pattern))
}

fn matches(name: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |family| name.starts_with(family))
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap()
}
