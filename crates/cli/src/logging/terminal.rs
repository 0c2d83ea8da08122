//! Stderr with one line at its end that is drawn again and again: everything else is written above it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// To the beginning of the line, and all of it cleared.
const CLEAR: &[u8] = b"\r\x1b[2K";

/// Whether the last line on the terminal is the state.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Stderr, without the state.
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if SHOWN.swap(false, Ordering::Relaxed) {
            stderr.write_all(CLEAR)?;
        }
        stderr.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Draws the state in the last line.
pub(crate) fn show_line(text: &str) {
    let mut stderr = io::stderr().lock();
    let drawn = stderr
        .write_all(CLEAR)
        .and_then(|()| stderr.write_all(text.as_bytes()))
        .and_then(|()| stderr.flush());
    SHOWN.store(drawn.is_ok(), Ordering::Relaxed);
}

/// Removes the state, before something else is written.
pub(crate) fn clear_line() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = io::stderr().lock().write_all(CLEAR);
    }
}
