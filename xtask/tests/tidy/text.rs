//! Habits about the text of files.

use crate::repository::{File, files};

/// Long enough for a table or a state machine that belongs together, short enough to be read at once.
const LINES_MAX: usize = 600;

/// Longest line of prose on a page, in characters.
const PROSE_CHARS_MAX: usize = 100;

/// The parts are joined here so that this file does not find itself.
const MACHINES: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

#[test]
fn no_file_is_too_long_to_read() {
    // They are made, and nobody reads them from the beginning to the end.
    let is_lock = |path: &str| path == "Cargo.lock" || path.ends_with("package-lock.json");
    let is_made = |path: &str| is_lock(path) || path.starts_with("docs/public-api/");
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
fn the_prose_of_pages_is_wrapped() {
    let pages: Vec<File> = files().into_iter().filter(|file| file.path.ends_with(".md")).collect();
    assert!(pages.iter().any(|page| page.path == "README.md"), "the pages were not found");
    let long: Vec<String> = pages
        .iter()
        .flat_map(|page| {
            unwrapped(&page.text).into_iter().map(move |number| format!("{}:{number}", page.path))
        })
        .collect();
    assert!(long.is_empty(), "prose of more than {PROSE_CHARS_MAX} characters a line:\n{}", long.join("\n"));
}

#[test]
fn a_line_of_prose_that_could_be_broken_is_too_long() {
    let prose = "word ".repeat(20) + "more";
    let url = format!("https://example.org/{}", "a".repeat(PROSE_CHARS_MAX));
    assert_eq!((prose.len(), unwrapped(&prose)), (104, vec![1]));
    assert_eq!(unwrapped(&format!("- {prose}\n\n  {prose}\n")), [1, 3]);
    assert_eq!(unwrapped(&format!("```sh\n{prose}\n```\n{prose}")), [4], "after a block of code");
    assert_eq!(unwrapped(&format!("see [the page]({url})\n{url} and more")), [1], "a break before the link");
    for allowed in [
        &prose[..PROSE_CHARS_MAX],
        &format!("| {prose} |"),
        &format!("text\n\n    {prose}"),
        &format!("~~~\n{prose}\n~~~"),
        &format!("[page]: {url}"),
        &format!("- {url}"),
    ] {
        assert_eq!(unwrapped(allowed), [0; 0], "{allowed}");
    }
}

/// The numbers of the lines of prose that are too long. Tables and code are no prose, and a line that cannot be broken
/// before the limit, such as a long link, may be longer.
fn unwrapped(page: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut long = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let text = line.trim_start();
        if text.starts_with("```") || text.starts_with("~~~") {
            in_code = !in_code;
        }
        let is_prose = !in_code && !text.starts_with('|') && !line.starts_with("    ");
        if is_prose && line.chars().count() > PROSE_CHARS_MAX && can_be_broken(text, line.len() - text.len())
        {
            long.push(at + 1);
        }
    }
    long
}

/// Whether there is a blank to break at before the limit, behind the mark of a list or the name of a link's address.
fn can_be_broken(text: &str, indent: usize) -> bool {
    let is_mark = |word: &str| {
        matches!(word, "-" | "*") || word.ends_with("]:") || word.trim_end_matches('.').parse::<u32>().is_ok()
    };
    let words = match text.split_once(' ') {
        Some((mark, rest)) if is_mark(mark) => rest,
        _ => text,
    };
    let before = text.len() - words.len() + indent;
    words.chars().take(PROSE_CHARS_MAX - before).any(|c| c == ' ')
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
