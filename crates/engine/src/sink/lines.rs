//! `file:` and `stdout:`: one structured CloudEvents JSON object a line, complete lines only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Envelope, Error, ErrorKind, Outcome, Result, escape_json};

/// The `source` attribute of what these sinks write.
const SOURCE: &str = "pillarbox";
/// How much of the file's end is read at a time to find its last complete line.
const TAIL_BYTES: u64 = 64 * 1024;

fn lines_of(batch: &[Entry]) -> Vec<u8> {
    let mut lines = Vec::new();
    for entry in batch {
        lines.extend_from_slice(&Envelope::of(entry, SOURCE).to_json_line());
        lines.push(b'\n');
    }
    lines
}

/// The same lines, escaped for a terminal.
fn for_terminals(lines: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(lines) {
        Ok(text) => escape_json(&text).into_owned().into_bytes(),
        Err(other) => other.into_bytes(),
    }
}

fn report_all(batch: &[Entry], report: &dyn Report, outcome: &Outcome) {
    for index in 0..batch.len() {
        report.outcome(index, outcome.clone());
    }
}

fn ordered() -> SinkCapabilities {
    let mut capabilities = SinkCapabilities::default();
    capabilities.ordered_prefix = true;
    capabilities
}

/// Appends to a file. A batch is confirmed once it is synced to disk.
///
/// Several processes may append to one file. Each takes the file's lock while it writes. Under the lock it
/// removes an incomplete last line that a killed writer may have left. That line was never confirmed, so its
/// entry is delivered again.
#[derive(Clone, Debug)]
pub struct FileSink {
    target: Arc<Target>,
    path: PathBuf,
}

#[derive(Debug)]
struct Target {
    file: File,
    /// The lock of a file belongs to the process that opened it: it keeps other processes out, not the other
    /// deliveries of this one.
    turn: Mutex<()>,
}

impl FileSink {
    /// Opens the file. If it does not exist, it is created, readable and writable by its owner only, because
    /// events may be confidential. The rights of an existing file are not changed.
    ///
    /// # Errors
    /// When it cannot be opened for reading and writing.
    ///
    /// ```no_run
    /// use pillarbox_engine::sink::FileSink;
    ///
    /// let sink = FileSink::open("events.ndjson")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("cannot open {} for appending: {error}", path.display()))
        })?;
        Ok(Self { target: Arc::new(Target { file, turn: Mutex::default() }), path })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn append(target: &Target, lines: &[u8]) -> io::Result<()> {
    let mut file = &target.file;
    let turn = target.turn.lock().unwrap_or_else(PoisonError::into_inner);
    file.lock()?;
    let written = cut_incomplete_line(file).and_then(|end| {
        file.write_all(lines).inspect_err(|_| {
            // A full disk may have taken a part: leave complete lines only.
            let _ = file.set_len(end);
        })
    });
    file.unlock()?;
    drop(turn);
    written?;
    file.sync_data()
}

/// Cuts what stands behind the last newline, and returns the length that is left. Call it under the lock.
fn cut_incomplete_line(mut file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(TAIL_BYTES);
        let mut tail = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut tail)?;
        if let Some(newline) = tail.iter().rposition(|byte| *byte == b'\n') {
            end = start + u64::try_from(newline).unwrap_or(0) + 1;
            break;
        }
        end = start;
        if end == length {
            break;
        }
    }
    if end < length {
        file.set_len(end)?;
    }
    Ok(end)
}

#[async_trait]
impl Sink for FileSink {
    fn capabilities(&self) -> SinkCapabilities {
        ordered()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let lines = lines_of(batch);
        let target = Arc::clone(&self.target);
        let written = tokio::task::spawn_blocking(move || append(&target, &lines)).await;
        let outcome = match written {
            Ok(Ok(())) => Outcome::Confirmed,
            Ok(Err(error)) => Outcome::down(format!("{:?}", error.kind()), error.to_string()),
            Err(_) => Outcome::unknown("cancelled", "the write was cancelled before it finished"),
        };
        report_all(batch, report, &outcome);
    }
}

/// Writes to standard output. A batch is confirmed once it is flushed.
///
/// ```
/// use pillarbox_engine::{Relay, sink::StdoutSink};
/// # use pillarbox_testkit::{MemoryOutbox, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> pillarbox_core::Result<()> {
/// # let store = MemoryStore::new();
/// # let mut tx = store.begin();
/// # MemoryOutbox::new(&store, "orders").stage(&mut tx, pillarbox_core::Event::new("order.placed", "{}")).await?;
/// # tx.commit();
///
/// // Each event is one line: a CloudEvents JSON object.
/// let relay = Relay::builder(store, StdoutSink).route("orders").build()?;
/// assert_eq!(relay.drain().await?.delivered, 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutSink;

#[async_trait]
impl Sink for StdoutSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = ordered();
        capabilities.durable = false;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let lines = for_terminals(lines_of(batch));
        let written = tokio::task::spawn_blocking(move || {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&lines).and_then(|()| stdout.flush())
        })
        .await;
        let outcome = match written {
            Ok(Ok(())) => Outcome::Confirmed,
            Ok(Err(error)) => Outcome::down(format!("{:?}", error.kind()), error.to_string()),
            Err(_) => Outcome::unknown("cancelled", "the write was cancelled before it finished"),
        };
        report_all(batch, report, &outcome);
    }
}
