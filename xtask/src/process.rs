//! A server as a child process that cannot outlive us.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::Result;

/// How long a server may take to end by itself. Then its process group is killed. PostgreSQL needs five seconds
/// when it is stopped while it starts: it waits that long for a child that was too young to hear the signal.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How much of a server's log is shown when it did not start.
const LOG_LINES_MAX: usize = 20;

/// Whom a signal is for.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Process(u32),
    Group(u32),
}

/// Sends a signal by its name.
///
/// Through the shell's own `kill`: the system call needs `unsafe` or a crate, and this runs a few times a day.
/// Failing means that the process has ended already, which is what every caller wants.
pub(crate) fn signal(name: &str, target: Target) {
    let target = match target {
        Target::Process(id) => id.to_string(),
        Target::Group(id) => format!("-{id}"),
    };
    let _ = Command::new("sh")
        .args(["-c", "kill -s \"$0\" -- \"$1\"", name, &target])
        .stderr(Stdio::null())
        .process_group(0)
        .status();
}

/// What a server is: its name, and the signal that ends it at once.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) stop: &'static str,
}

/// A running server. Dropping it stops the server and waits for its end.
pub(crate) struct Running {
    kind: Kind,
    id: u32,
    log: PathBuf,
    ended: Receiver<Option<ExitStatus>>,
}

impl Running {
    /// Starts a server in a process group of its own, so that Ctrl-C on the terminal does not reach it before the
    /// command that uses it has ended.
    pub(crate) fn start(kind: Kind, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", kind.name))?;
        Ok(Self { kind, id: child.id(), log: log.to_path_buf(), ended: watch(child) })
    }

    /// An error with the end of the server's log if the server has ended by itself.
    pub(crate) fn check(&self) -> Result<()> {
        match self.ended.try_recv() {
            Ok(status) => Err(format!(
                "{} ended while it was starting ({})\n{}",
                self.kind.name,
                status.map_or_else(|| "unknown status".to_owned(), |status| status.to_string()),
                self.log_tail()
            )
            .into()),
            Err(_) => Ok(()),
        }
    }

    /// The last lines of the server's log.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}

impl Drop for Running {
    fn drop(&mut self) {
        signal(self.kind.stop, Target::Group(self.id));
        if self.ended.recv_timeout(STOP_MAX).is_err_and(|error| error == mpsc::RecvTimeoutError::Timeout) {
            eprintln!("xtask: {} did not stop within {} s, killing it", self.kind.name, STOP_MAX.as_secs());
            signal("KILL", Target::Group(self.id));
            let _ = self.ended.recv();
        }
    }
}

fn watch(mut child: Child) -> Receiver<Option<ExitStatus>> {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait().ok()));
    ended
}
