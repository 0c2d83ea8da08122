//! One child process: a line in, a line out.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use pillarbox_core::{EventId, format_duration};
use pillarbox_engine::sink::HandlerError;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::answer::{self, ANSWER_BYTES_MAX};

/// How long a child may take to end after its stdin was closed.
const END_MAX: Duration = Duration::from_secs(5);

/// A running child. Dropped, it is killed.
pub(super) struct Child {
    process: tokio::process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Why a child cannot be asked again.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It ended, or closed its stdout or stdin.
    Crashed(Option<ExitStatus>),
    /// It did not answer in time.
    Hung(Duration),
    /// What it wrote is no answer.
    Rubbish(&'static str),
}

impl Child {
    /// Starts a child. The shell replaces itself by the command, so that ending the child ends the command.
    pub(super) fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // A signal of the terminal is for the consumer: it ends its children when they are done.
        #[cfg(unix)]
        shell.process_group(0);
        let mut process = shell.spawn()?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::Error::other("the child has no stdin or stdout"));
        };
        Ok(Self { process, stdin, stdout: BufReader::new(stdout) })
    }

    /// Hands an event over and waits for the answer. After trouble, the child must not be asked again.
    pub(super) async fn ask(
        &mut self,
        mut line: Vec<u8>,
        id: EventId,
        most: Duration,
    ) -> Result<Result<(), HandlerError>, Trouble> {
        line.push(b'\n');
        let mut answer = Vec::new();
        let exchange = async {
            self.stdin.write_all(&line).await?;
            self.stdin.flush().await?;
            // One byte more than allowed tells a long line from one that ends there.
            (&mut self.stdout).take(ANSWER_BYTES_MAX + 1).read_until(b'\n', &mut answer).await
        };
        match timeout(most, exchange).await {
            Err(_) => return Err(Trouble::Hung(most)),
            Ok(Err(_)) => return Err(self.crashed().await),
            Ok(Ok(_)) => {}
        }
        if !answer.ends_with(b"\n") {
            if answer.len() as u64 > ANSWER_BYTES_MAX {
                return Err(Trouble::Rubbish("it is longer than 64 KiB"));
            }
            return Err(self.crashed().await);
        }
        answer::read(&answer, id).map_err(Trouble::Rubbish)
    }

    async fn crashed(&mut self) -> Trouble {
        let status = timeout(END_MAX, self.process.wait()).await;
        Trouble::Crashed(status.ok().and_then(Result::ok))
    }

    /// Lets the child end: it has no more events to come.
    pub(super) async fn end(self) {
        let Self { mut process, stdin, stdout } = self;
        drop((stdin, stdout));
        if timeout(END_MAX, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
    }

    /// Ends the child at once.
    pub(super) async fn kill(mut self) {
        let _ = self.process.kill().await;
    }
}

impl Trouble {
    /// What it means for the event: it is tried again.
    pub(super) fn into_error(self) -> HandlerError {
        let code = match &self {
            Self::Crashed(_) => "child_ended",
            Self::Hung(_) => "child_hung",
            Self::Rubbish(_) => "child_answer",
        };
        HandlerError::retry(code, self.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed(Some(status)) => write!(f, "the child ended: {status}"),
            Self::Crashed(None) => f.write_str("the child closed its stdin or stdout"),
            Self::Hung(most) => write!(f, "the child did not answer within {}", format_duration(*most)),
            Self::Rubbish(why) => {
                write!(f, "the child wrote a line that is no answer: {why}. Write messages to stderr")
            }
        }
    }
}
