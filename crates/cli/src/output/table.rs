//! Plain tables for people.

use std::fmt;

use anstyle::Style;
use pillarbox_core::is_deceptive;

const HEAD: Style = Style::new().bold();

/// On which side a column is flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading, each column as wide as its widest cell.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A cell is one line: control characters of somebody's key must not rearrange the terminal.
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.columns[column].0.chars().count())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<_> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                let pad = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell, &pad]),
                    Align::Right => line.extend([&pad, cell]),
                }
                line.push_str("  ");
            }
            line.trim_end().to_owned()
        };
        write!(f, "{HEAD}{}{HEAD:#}", line(&mut self.columns.iter().map(|column| column.0)))?;
        for row in &self.rows {
            write!(f, "\n{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

/// One line of somebody's text: control characters are replaced, and those that change its direction or end it are written
/// as escapes.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_deceptive(c) => clean.extend(c.escape_unicode()),
            c if c.is_control() => clean.push('\u{fffd}'),
            c => clean.push(c),
        }
    }
    clean
}

/// At most so many characters, the last one says that there were more.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("route", Align::Left), ("dead", Align::Right)]);
        table.row(["é".to_owned(), "12345".to_owned()]);
        table.row(["orders".to_owned(), "7".to_owned()]);
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, "route    dead\né       12345\norders      7");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(&[("key", Align::Left)]);
        table.row(["a\u{1b}[2Jb".to_owned()]);
        assert!(!anstream::adapter::strip_str(&table.to_string()).to_string().contains('\u{1b}'));
        assert!(table.to_string().contains('\u{fffd}'));
    }

    #[test]
    fn characters_that_turn_a_line_around_are_shown_as_escapes() {
        let mut table = Table::new(&[("key", Align::Left)]);
        table.row(["o-1\u{202e}2-o\u{2028}o-3".to_owned()]);
        let text = table.to_string();
        assert!(text.contains("o-1\\u{202e}2-o\\u{2028}o-3"), "{text}");
    }
}
