//! Habits about the text of files.

use crate::repository::{File, files};

/// Long enough for a table or a state machine that belongs together, short enough to be read at once.
const LINES_MAX: usize = 600;

/// The parts are joined here so that this file does not find itself.
const MACHINES: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

#[test]
fn no_file_is_too_long_to_read() {
    // Both are made, and nobody reads them from the beginning to the end.
    let is_made = |path: &str| path == "Cargo.lock" || path.starts_with("docs/public-api/");
    let long: Vec<String> = files()
        .iter()
        .filter(|file| !is_made(&file.path))
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "more than {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn no_path_of_somebodys_machine_is_written_down() {
    refuse(
        |_| true,
        "an absolute path of a machine",
        |line| {
            MACHINES.iter().any(|path| {
                // Part of a longer relative path or of a URL is fine; only a path from the root is somebody's.
                line.match_indices(path)
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c)))
            })
        },
    );
}

#[test]
fn no_sql_is_put_together_where_it_is_run() {
    let in_a_store = |file: &File| file.path.starts_with("crates/store-") && file.path.contains("/src/");
    refuse(in_a_store, "SQL made by format! next to a query", |line| {
        line.contains("format!") && (line.contains("query") || line.contains("raw_sql"))
    });
}

#[test]
fn one_file_of_a_store_vouches_for_its_sql() {
    let vouching: Vec<File> = files()
        .into_iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter(|file| file.text.contains("AssertSqlSafe("))
        .collect();
    for file in &vouching {
        assert!(
            file.path.starts_with("crates/store-") && file.path.ends_with("/src/sql.rs"),
            "{} calls a text safe SQL; only the sql.rs of a store does that",
            file.path
        );
    }
}

/// Fails with every line, of the files that `concerns` picks, that `is_bad`.
fn refuse(concerns: impl Fn(&File) -> bool, what: &str, is_bad: impl Fn(&str) -> bool) {
    let bad: Vec<String> = files()
        .iter()
        .filter(|file| concerns(file))
        .flat_map(|file| file.text.lines().enumerate().map(move |(at, line)| (&file.path, at + 1, line)))
        .filter(|(_, _, line)| is_bad(line))
        .map(|(path, number, line)| format!("{path}:{number}: {}", line.trim()))
        .collect();
    assert!(bad.is_empty(), "{what}:\n{}", bad.join("\n"));
}
