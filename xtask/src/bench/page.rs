//! The page of figures: what is between marks is replaced by each whole run, the rest is written by people.

use std::fs;
use std::path::Path;

use crate::Result;

pub(crate) const PAGE: &str = "docs/performance.md";
pub(crate) const PLOT: &str = "docs/performance.svg";
/// Where the prose of a page wraps, in characters.
const WIDTH: usize = 100;

/// Replaces the named sections of the page.
pub(crate) fn write(root: &Path, sections: &[(&str, &str)]) -> Result<()> {
    let path = root.join(PAGE);
    let mut text = fs::read_to_string(&path)?;
    for (name, section) in sections {
        text = replaced(&text, name, section)?;
    }
    Ok(fs::write(path, text)?)
}

fn replaced(text: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench: {name} -->\n"), format!("<!-- end of {name} -->"));
    let missing = || format!("{PAGE} has no section between {} and {end}", begin.trim());
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    let section: Vec<String> = section.trim().lines().map(wrapped).collect();
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", section.join("\n")))
}

/// A line of prose at the width of a page. Rows of a table stay whole.
fn wrapped(line: &str) -> String {
    if line.starts_with('|') || line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let mut text = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        let fits = column + 1 + length <= WIDTH;
        text.push_str(if text.is_empty() {
            ""
        } else if fits {
            " "
        } else {
            "\n"
        });
        text.push_str(word);
        column = if fits { column + 1 + length } else { length };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = "# A\n<!-- bench: peers -->\nold\n<!-- end of peers -->\nkept\n";
        let once = replaced(page, "peers", "new\n").unwrap();
        assert_eq!(once, "# A\n<!-- bench: peers -->\n\nnew\n\n<!-- end of peers -->\nkept\n");
        assert_eq!(replaced(&once, "peers", "new").unwrap(), once, "again is the same");
        assert!(replaced(page, "goals", "new").is_err());
    }

    #[test]
    fn prose_is_wrapped_and_rows_of_a_table_are_not() {
        let (words, row) = ("word ".repeat(50), format!("| {} |", "x".repeat(200)));
        let text =
            replaced("<!-- bench: a -->\n<!-- end of a -->", "a", &format!("{words}\n\n{row}")).unwrap();
        assert!(text.contains(&row));
        assert!(text.lines().all(|line| line == row || line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 50);
    }

    #[test]
    fn the_page_has_the_sections_that_a_run_writes() {
        let root = crate::root().unwrap();
        let text = fs::read_to_string(root.join(PAGE)).unwrap();
        for section in ["peers", "goals", "brokers", "consumers", "databases", "page"] {
            replaced(&text, section, "").unwrap();
        }
    }
}
