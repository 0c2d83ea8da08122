//! The lines of a file or of stdin, one at a time and bounded.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use pillarbox_core::limits::PAYLOAD_BYTES_DEFAULT;

use crate::fault::Fault;

/// Longest line: the largest payload as base64, with room for everything else.
const LINE_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_DEFAULT + 512 * 1024;

/// Lines with their numbers, counted from 1; empty ones are passed over.
pub(crate) struct Lines {
    source: Box<dyn BufRead>,
    total: Option<u64>,
    number: u64,
    read: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a file, or stdin for `-`.
    pub(crate) fn open(source: &str) -> Result<Self, Fault> {
        if source == "-" {
            return Ok(Self::new(Box::new(BufReader::new(std::io::stdin())), None));
        }
        let cannot = |error: std::io::Error| Fault::usage(format!("cannot read {source}: {error}"));
        let file = File::open(source).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            return Err(Fault::usage(format!("cannot read {source}: it is a directory")));
        }
        let total = metadata.is_file().then_some(metadata.len());
        Ok(Self::new(Box::new(BufReader::with_capacity(256 * 1024, file)), total))
    }

    fn new(source: Box<dyn BufRead>, total: Option<u64>) -> Self {
        Self { source, total, number: 0, read: 0, line: Vec::new() }
    }

    /// How many bytes there are, if that is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.total
    }

    /// How many bytes were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The next line that is not empty.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>, Fault> {
        loop {
            self.line.clear();
            let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
            let number = self.number + 1;
            let read = (&mut self.source)
                .take(limit)
                .read_until(b'\n', &mut self.line)
                .map_err(|error| Fault::failed(format!("line {number} cannot be read: {error}")))?;
            if read == 0 {
                return Ok(None);
            }
            self.number = number;
            self.read += u64::try_from(read).unwrap_or(0);
            if read > LINE_BYTES_MAX {
                return Err(Fault::usage(format!("line {number} is longer than {LINE_BYTES_MAX} bytes")));
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        let text = std::str::from_utf8(&self.line)
            .map_err(|_| Fault::usage(format!("line {} is not UTF-8", self.number)))?;
        Ok(Some((self.number, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_are_passed_over_and_counted() {
        let mut lines = Lines::new(Box::new("a\n\n \r\nb".as_bytes()), None);
        assert_eq!(lines.next().unwrap(), Some((1, "a\n")));
        assert_eq!(lines.next().unwrap(), Some((4, "b")));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_has_a_limit() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(long)), None);
        assert!(lines.next().unwrap_err().message().unwrap().contains("line 1"));
    }
}
