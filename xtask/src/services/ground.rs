//! What servers stand on: a temporary directory, an account and patience.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::account::Account;
use crate::Result;
use crate::exec::Executor;
use crate::process::Running;

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(30);

/// How long to wait between two questions whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The directory and the account of the servers. Dropping it removes the directory.
pub(crate) struct Ground<'a> {
    executor: &'a Executor,
    pub(crate) account: Account,
    directory: PathBuf,
    interrupted: Cell<bool>,
}

impl<'a> Ground<'a> {
    /// Makes an empty directory that only the servers' account can read.
    ///
    /// It is under the system's temporary directory, not under `target`: the account must be able to reach it, and
    /// a checkout in someone's home is closed to other accounts. The name is short because the path of a Unix
    /// socket has at most 107 bytes.
    pub(crate) fn new(executor: &'a Executor) -> Result<Self> {
        let account = Account::unprivileged()?;
        let directory = env::temp_dir().join(format!("pillarbox-{:016x}", random()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let ground = Self { executor, account, directory, interrupted: Cell::new(false) };
        ground.account.own(&ground.directory)?;
        Ok(ground)
    }

    /// An empty directory for one start of one server.
    pub(crate) fn directory(&self, name: &str, port: u16) -> Result<PathBuf> {
        let path = self.directory.join(format!("{name}-{port}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        self.account.own(&path)?;
        Ok(path)
    }

    /// Writes a file that only the servers' account can read.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text)?;
        self.account.own(path)
    }

    /// Runs a short command under the account, its output shown only if it fails. An interrupt that came
    /// meanwhile is an error, so that no server is started only to be stopped.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        let output = command.stdin(Stdio::null()).output()?;
        self.pause(Duration::ZERO)?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("{:?} failed ({})\n{text}", command.get_args().last(), output.status).into())
    }

    /// Asks until the server answers. Ends early when the server has ended or when we are interrupted.
    pub(crate) fn until_ready(&self, server: &Running, mut question: Command) -> Result<()> {
        let begin = Instant::now();
        question.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        while !question.status()?.success() {
            server.check()?;
            if begin.elapsed() > START_MAX {
                let log = server.log_tail();
                return Err(format!("no answer within {} s\n{log}", START_MAX.as_secs()).into());
            }
            self.pause(ASK_EVERY)?;
        }
        Ok(())
    }

    fn pause(&self, moment: Duration) -> Result<()> {
        self.executor.pause(moment).inspect_err(|_| self.interrupted.set(true))
    }

    /// Whether a signal asked us to end, so that starting it again would be wrong.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("xtask: {} stays behind: {error}", self.directory.display());
        }
    }
}

/// A number that nobody guesses: the standard library seeds its hash maps with one.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
