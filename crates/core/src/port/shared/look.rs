//! The result of inspecting the tables.

use crate::port::SchemaState;

/// What the database's catalogue says about the tables.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The version of the tables. 0: there are none.
    pub version: u32,
    /// Defects that make the tables unusable: what is missing or different, one per item.
    pub differences: Vec<String>,
    /// Missing indexes, and missing functions with `()` after their name. Without an index, calls are slower.
    /// Without a function, plain SQL cannot use it.
    pub missing: Vec<String>,
}

impl Found {
    /// The state of the tables for a program that needs this version.
    #[must_use]
    pub fn state(&self, wanted: u32) -> SchemaState {
        let found = self.version;
        // A newer version may have other tables: that it is newer says it all.
        if found > wanted {
            return SchemaState::Newer { found, wanted };
        }
        if !self.differences.is_empty() {
            return SchemaState::Damaged { differences: self.differences.clone() };
        }
        match found {
            0 => SchemaState::Missing,
            _ if found < wanted => SchemaState::Older { found, wanted },
            _ => SchemaState::Ready { warnings: self.missing.iter().map(|name| warning(name)).collect() },
        }
    }

    /// The migration scripts to run: one for each missing version, and then the scripts that every migration runs.
    #[must_use]
    pub fn scripts(&self, versions: &[&'static str], always: &[&'static str]) -> Vec<&'static str> {
        let known = usize::try_from(self.version).unwrap_or(usize::MAX);
        if known >= versions.len() && self.missing.is_empty() {
            return vec![];
        }
        versions.iter().skip(known).chain(always).copied().collect()
    }
}

fn warning(name: &str) -> String {
    match name.strip_suffix("()") {
        Some(function) => format!("the function {function} is missing; `pillarbox migrate` creates it"),
        None => format!("the index {name} is missing, so calls are slower; `pillarbox migrate` creates it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_what_is_missing() {
        let found = |version, missing: &[&str]| Found {
            version,
            missing: missing.iter().map(ToString::to_string).collect(),
            ..Found::default()
        };
        for (found, scripts) in [
            (found(0, &[]), vec!["one", "two", "always"]),
            (found(1, &[]), vec!["two", "always"]),
            (found(2, &[]), vec![]),
            (found(2, &["outbox_open"]), vec!["always"]),
        ] {
            assert_eq!(found.scripts(&["one", "two"], &["always"]), scripts, "{found:?}");
        }
    }
}
