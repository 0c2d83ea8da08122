//! PROOFS.md names, for every guarantee, the tests that show it. A guarantee without a test is not a guarantee,
//! and a name that no test has is worse.

use std::collections::BTreeSet;
use std::fs;

use crate::repository::{files, root};

const HEADER: &str = "| guarantee | what is promised | shown by |";

/// A row of the table: the guarantee and the tests that show it.
struct Row {
    guarantee: String,
    shown_by: Vec<String>,
}

#[test]
fn every_guarantee_names_its_proof() {
    for row in rows() {
        assert!(!row.shown_by.is_empty(), "{} names no test", row.guarantee);
    }
}

#[test]
fn every_name_in_the_proofs_is_a_test() {
    let functions: BTreeSet<String> = files()
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| functions(&file.text).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let missing: Vec<String> = rows()
        .into_iter()
        .flat_map(|row| row.shown_by.into_iter().map(move |test| (row.guarantee.clone(), test)))
        .filter(|(_, test)| !functions.contains(test.rsplit("::").next().unwrap()))
        .map(|(guarantee, test)| format!("{guarantee}: {test}"))
        .collect();
    assert!(missing.is_empty(), "PROOFS.md names tests that do not exist:\n{}", missing.join("\n"));
}

#[test]
fn no_guarantee_is_listed_twice() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        assert!(seen.insert(row.guarantee.clone()), "{} is listed twice", row.guarantee);
    }
}

/// The rows of every table under [`HEADER`]. There may be several, one for each chapter.
fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("PROOFS.md")).expect("PROOFS.md is there");
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == HEADER) {
        let table = lines.by_ref().take_while(|line| line.starts_with('|')).skip(1);
        rows.extend(table.map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [guarantee, _, shown_by] = cells[..] else { panic!("not three cells: {line}") };
            Row { guarantee: guarantee.to_owned(), shown_by: in_backticks(shown_by) }
        }));
    }
    assert!(!rows.is_empty(), "PROOFS.md has no row under {HEADER}");
    rows
}

fn in_backticks(cell: &str) -> Vec<String> {
    assert!(cell.matches('`').count().is_multiple_of(2), "a backtick is missing: {cell}");
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names of all functions that a source text defines, conformance cases and macro-made tests included: a case
/// is a function of the conformance suites, and the test that an adapter's macro makes of it has the same name.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("fn ").filter_map(|(at, word)| {
        let starts_a_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &text[at + word.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        (starts_a_word && end > 0).then_some(&rest[..end])
    })
}
