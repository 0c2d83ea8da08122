//! Runs commands while listening to signals, so that an interrupt ends the command, then the servers, then us.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Result;
use crate::process::{Target, signal};

/// How long a command may take to end after it was asked to. Then it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// The exit code of a shell for a process that ended by a signal is this plus the signal's number.
const SIGNALLED: u8 = 128;

enum Notice {
    Signal(i32),
    Ended(io::Result<ExitStatus>),
}

/// Listens to SIGINT, SIGTERM and SIGHUP for the rest of the process and runs commands meanwhile.
///
/// One thread reads signals and one waits for the command; both report into one channel, so nothing here polls.
pub(crate) struct Executor {
    sender: Sender<Notice>,
    notices: Receiver<Notice>,
}

impl Executor {
    pub(crate) fn new() -> Result<Self> {
        let (sender, notices) = mpsc::channel();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let reports = sender.clone();
        thread::spawn(move || {
            for number in signals.forever() {
                if reports.send(Notice::Signal(number)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { sender, notices })
    }

    /// Runs a command to its end and returns its exit code as a shell would give it.
    ///
    /// On a terminal the command stays in our process group: Ctrl-C reaches it without us, and whether it ends is
    /// its own decision (`psql` does not). Elsewhere it gets a group of its own, so that a SIGTERM sent to us
    /// alone also ends the grandchildren, such as the test binaries below `cargo test`.
    pub(crate) fn run(&self, command: &mut Command) -> Result<u8> {
        forget_our_package(command);
        let in_foreground = io::stdin().is_terminal();
        if !in_foreground {
            command.process_group(0);
        }
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let target = if in_foreground { Target::Process(child.id()) } else { Target::Group(child.id()) };
        let sender = self.sender.clone();
        thread::spawn(move || sender.send(Notice::Ended(child.wait())));

        let mut stopped_by = None;
        loop {
            let notice = match stopped_by {
                None => self.notices.recv()?,
                Some(_) => match self.notices.recv_timeout(GRACE) {
                    Ok(notice) => notice,
                    Err(_) => {
                        signal("KILL", target);
                        self.notices.recv()?
                    }
                },
            };
            match notice {
                Notice::Signal(SIGINT) if in_foreground => {}
                Notice::Signal(number) => {
                    signal(if number == SIGINT { "INT" } else { "TERM" }, target);
                    stopped_by = Some(number);
                }
                Notice::Ended(status) => {
                    if stopped_by.is_some() && !in_foreground {
                        // A shell's background jobs ignore SIGINT: nobody of the group stays behind.
                        signal("KILL", target);
                    }
                    return Ok(stopped_by.map_or(code(status?), signalled));
                }
            }
        }
    }

    /// Waits until a signal asks us to end and returns the exit code that says so.
    pub(crate) fn until_stopped(&self) -> Result<u8> {
        loop {
            if let Notice::Signal(number) = self.notices.recv()? {
                return Ok(signalled(number));
            }
        }
    }

    /// Waits for a moment; an error means that a signal asked us to end.
    pub(crate) fn pause(&self, moment: Duration) -> Result<()> {
        match self.notices.recv_timeout(moment) {
            Ok(Notice::Signal(number)) => Err(format!("interrupted by signal {number}").into()),
            Ok(Notice::Ended(_)) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// `cargo run` tells us about our own package. Some build scripts are run again when these
/// variables change, so a build by hand and one of ours would undo each other.
fn forget_our_package(command: &mut Command) {
    let ours = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
        command.env_remove(name);
    });
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(number)) => signalled(number),
        (None, None) => 1,
    }
}

fn signalled(number: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(number).unwrap_or(0))
}
