//! What servers stand on: a temporary directory, an account, free ports and patience.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::account::Account;
use crate::process::{Running, Target, signal, tail};
use crate::{Result, root};

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(60);

/// How long to wait between two questions whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Nothing is ever sent: the end of the channel is the message.
pub(crate) enum Never {}

/// The directory, the account and the ports of all servers. Dropping it removes the directory.
pub(crate) struct Base {
    account: Account,
    directory: PathBuf,
    given: Mutex<BTreeSet<u16>>,
}

impl Base {
    /// Makes an empty directory that only the servers' account can read.
    ///
    /// It is under the system's temporary directory, not under `target`: the account must be able to reach it, and
    /// a checkout in someone's home is closed to other accounts. The name is short because the path of a Unix
    /// socket has at most 107 bytes.
    pub(crate) fn new() -> Result<Self> {
        let account = Account::unprivileged()?;
        let directory = env::temp_dir().join(format!("pillarbox-{:016x}", random()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let base = Self { account, directory, given: Mutex::default() };
        base.account.own(&base.directory)?;
        Ok(base)
    }

    /// A program that starts servers as we do, for tests that want some of their own: `services NAME…` prints their URLs
    /// and keeps them until it is told to stop.
    pub(super) fn program(&self) -> Result<PathBuf> {
        let path = self.directory.join("services");
        let (package, us) = (root()?.join("xtask"), env::current_exe()?);
        let (package, us) = (package.display(), us.display());
        let text = format!("#!/bin/sh\nCARGO_MANIFEST_DIR='{package}' exec '{us}' services \"$@\"\n");
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// What each server has written, by the name of its directory.
    pub(super) fn logs(&self) -> impl Iterator<Item = (String, String)> {
        let directories = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        directories.filter_map(|directory| {
            let log = fs::read(directory.path().join("log")).ok()?;
            let name = directory.file_name().to_string_lossy().into_owned();
            Some((name, String::from_utf8_lossy(&log).into_owned()))
        })
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("xtask: {} could not be removed: {error}", self.directory.display());
        }
    }
}

/// What one server stands on.
pub(crate) struct Ground {
    base: Arc<Base>,
    stop: Receiver<Never>,
    interrupted: Cell<bool>,
}

impl Ground {
    /// Ground for one server, which is to stop when the other end of `stop` is gone.
    pub(crate) fn new(base: Arc<Base>, stop: Receiver<Never>) -> Self {
        Self { base, stop, interrupted: Cell::new(false) }
    }

    /// A command under the account of the servers; see [`Account::command`].
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>, on_our_death: &str) -> Command {
        self.base.account.command(program, on_our_death)
    }

    /// A port of the loopback that is free and that no other server was given.
    pub(crate) fn port(&self) -> Result<u16> {
        let mut given = self.base.given.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            if given.insert(port) {
                return Ok(port);
            }
        }
    }

    /// An empty directory for one start of one server.
    pub(crate) fn directory(&self, name: &str, port: u16) -> Result<PathBuf> {
        let path = self.base.directory.join(format!("{name}-{port}"));
        self.subdirectory(&path)?;
        Ok(path)
    }

    /// An empty directory inside that directory.
    pub(crate) fn subdirectory(&self, path: &Path) -> Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        self.base.account.own(path)
    }

    /// Writes a file that only the servers' account can read.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        self.base.account.own(path)
    }

    /// Writes a script that can be run.
    pub(crate) fn write_script(&self, path: &Path, text: &str) -> Result<()> {
        self.write(path, text)?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o700))?)
    }

    /// Copies a program to where the servers' account can run it.
    pub(crate) fn copy_program(&self, from: &Path, to: &Path) -> Result<()> {
        fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
        self.base.account.own(to)
    }

    /// Runs a command to its end, its output shown only if it fails. An interrupt kills it and is an error, so
    /// that no server is started only to be stopped.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        let log = self.base.directory.join(format!("run-{:016x}.log", random()));
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if let Err(interrupt) = self.pause(ASK_EVERY) {
                signal("KILL", Target::Group(child.id()));
                child.wait()?;
                return Err(interrupt);
            }
        };
        if status.success() {
            return Ok(());
        }
        Err(format!("{:?} failed ({status})\n{}", command.get_args().last(), tail(&log)).into())
    }

    /// Asks until the server answers. Ends early when the server has ended or when we are interrupted.
    pub(crate) fn until_ready(&self, server: &Running, mut answers: impl FnMut() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !answers() {
            server.check()?;
            if begin.elapsed() > START_MAX {
                return Err(
                    format!("no answer within {} s\n{}", START_MAX.as_secs(), server.log_tail()).into()
                );
            }
            self.pause(ASK_EVERY)?;
        }
        Ok(())
    }

    /// Waits until the servers are to stop.
    pub(crate) fn until_stopped(&self) {
        let _ = self.stop.recv();
    }

    /// Whether the servers are to stop, so that starting another one would be wrong.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    fn pause(&self, moment: Duration) -> Result<()> {
        match self.stop.recv_timeout(moment) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                self.interrupted.set(true);
                Err("interrupted".into())
            }
            Ok(never) => match never {},
        }
    }
}

/// A question that a command asks: whether it ends well.
pub(crate) fn succeeds(mut question: Command) -> impl FnMut() -> bool {
    question.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    move || question.status().is_ok_and(|status| status.success())
}

/// A number that nobody guesses: the standard library seeds its hash maps with one.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
