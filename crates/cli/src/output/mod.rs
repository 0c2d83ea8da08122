//! stdout is data, stderr is talk. Colours and bars appear only on a terminal.

mod confirm;
mod entry;
mod progress;
mod quote;
mod table;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use pillarbox_core::escape_json;
use serde::Serialize;

use crate::fault::Fault;
use crate::logging;

pub(crate) use confirm::confirm;
pub(crate) use entry::{COLUMNS, EntryJson, StoryJson, is_json_type};
pub use progress::Progress;
pub(crate) use quote::quoted;
pub use table::{Align, Table};
pub(crate) use table::{clean, shortened};

/// How a warning begins.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// How an error begins.
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Where a command writes, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Data as JSON instead of tables.
    pub json: bool,
    /// Print only errors on stderr.
    pub quiet: bool,
}

impl Output {
    /// One line of data on stdout.
    pub fn data(&self, line: impl Display) -> Result<(), Fault> {
        written(writeln!(anstream::stdout().lock(), "{line}"))
    }

    /// One JSON object on one line of stdout.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Fault> {
        let line = serde_json::to_string(value)
            .map_err(|error| Fault::failed(format!("cannot write the answer as JSON: {error}")))?;
        // Not through `anstream`: escapes inside somebody's payload are data, and stay.
        written(writeln!(io::stdout().lock(), "{}", escape_json(&line)))
    }

    /// Talk for people, on stderr.
    pub fn say(&self, text: impl Display) {
        if !self.quiet {
            talk("info", format_args!(""), text);
        }
    }

    /// Talk for people that matters, on stderr.
    pub fn warn(&self, text: impl Display) {
        if !self.quiet {
            talk("warn", format_args!("{WARNING}warning:{WARNING:#} "), text);
        }
    }
}

/// The last words of a command that failed, on stderr.
pub fn report(fault: &Fault) {
    if let Some(message) = fault.message() {
        talk("error", format_args!("{ERROR}error:{ERROR:#} "), message);
    }
}

// A closed stderr must not end the work that it only talks about.
fn talk(level: &str, begin: std::fmt::Arguments<'_>, text: impl Display) {
    logging::clear_line();
    let _ = if logging::is_json() {
        writeln!(io::stderr().lock(), "{}", logging::json_line(level, text))
    } else {
        writeln!(anstream::stderr().lock(), "{begin}{text}")
    };
}

fn written(result: io::Result<()>) -> Result<(), Fault> {
    result.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Fault::PipeClosed,
        _ => Fault::failed(format!("cannot write to stdout: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_a_quiet_end() {
        let fault = written(Err(io::Error::from(ErrorKind::BrokenPipe))).unwrap_err();
        assert_eq!((fault.exit_code(), fault.message()), (0, None));
        let fault = written(Err(io::Error::other("disk full"))).unwrap_err();
        assert_eq!(fault.exit_code(), 1);
    }
}
