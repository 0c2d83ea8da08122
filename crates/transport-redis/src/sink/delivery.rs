//! One batch on its way: what was confirmed, and what is left when the connection goes.

use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, poll};
use pillarbox_core::port::Report;
use pillarbox_core::{Entry, Envelope, Outcome};
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::MutexGuard;

use crate::binding;
use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;

/// Commands of one request. A batch is several requests, so that their answers come as they are there, and those that
/// came before the connection was lost are known.
const PART: usize = 50;

/// A batch that is being delivered. Dropped before its end, it leaves a connection behind that nobody trusts: some
/// confirmation did not come in time.
pub(super) struct Delivery<'a> {
    connection: &'a Connection,
    live: Live,
    batch: &'a [Entry],
    report: &'a dyn Report,
    /// Whether each entry has no outcome yet.
    open: Vec<bool>,
    left: usize,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        live: Live,
        batch: &'a [Entry],
        report: &'a dyn Report,
    ) -> Self {
        Self { connection, live, batch, report, open: vec![true; batch.len()], left: batch.len() }
    }

    pub(super) async fn run(mut self, payload_bytes_max: usize, turn: MutexGuard<'_, ()>) {
        let (live, options) = (self.live.clone(), self.connection.options());
        let mut awaited = FuturesUnordered::new();
        for (number, part) in self.batch.chunks(PART).enumerate() {
            let mut indexes = Vec::with_capacity(part.len());
            let mut commands = Pipeline::with_capacity(part.len());
            for (index, entry) in (number * PART..).zip(part) {
                match command(entry, options, payload_bytes_max) {
                    Ok(command) => {
                        indexes.push(index);
                        commands.add_command(command);
                    }
                    Err(outcome) => self.settle(index, outcome),
                }
            }
            // The first look at a request hands it to the connection, which writes all that waits at once. So we look
            // in the order of the batch, and nothing may make a request wait for its turn.
            let mut connection = live.commands.clone();
            let request = async move {
                let answers = connection.send_packed_commands(&commands, 0, commands.len()).await;
                (indexes, answers)
            };
            let mut request = Box::pin(tokio::task::unconstrained(request));
            match poll!(&mut request) {
                Poll::Ready((indexes, answers)) => self.answered(&indexes, answers),
                Poll::Pending => awaited.push(request),
            }
        }
        drop(turn);
        let deadline = tokio::time::sleep(options.confirm_timeout);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                answer = awaited.next() => match answer {
                    Some((indexes, answers)) => self.answered(&indexes, answers),
                    None => break,
                },
                () = live.lost() => break,
                () = &mut deadline => {
                    (0..self.batch.len()).for_each(|index| self.settle(index, error::no_answer()));
                    live.distrust();
                }
            }
            if self.left == 0 {
                break;
            }
        }
        if self.left > 0 {
            self.lose().await;
        }
    }

    fn answered(&mut self, indexes: &[usize], answers: RedisResult<Vec<Value>>) {
        let answers: Vec<RedisResult<Value>> = match answers {
            Ok(answers) => answers.into_iter().map(Value::extract_error).collect(),
            // The connection is gone, and with it the answers to all of them.
            Err(_) => return,
        };
        for (index, answer) in indexes.iter().zip(answers) {
            let outcome = match answer {
                Ok(_id) => Some(Outcome::Confirmed),
                Err(error) => {
                    let stream = self.connection.options().stream.render(&self.batch[*index]);
                    error::unconfirmed(&error, &stream)
                }
            };
            if let Some(outcome) = outcome {
                self.settle(*index, outcome);
            }
        }
    }

    /// The connection is gone. What was written may have arrived; but where nobody answers any more, nobody is there
    /// to be asked again, and the entries wait until there is one, without an attempt spent.
    async fn lose(&mut self) {
        self.live.distrust();
        let outcome = match self.connection.live().await {
            Ok(_) => error::lost(),
            Err(error) => error::down(&error),
        };
        (0..self.batch.len()).for_each(|index| self.settle(index, outcome.clone()));
    }

    fn settle(&mut self, index: usize, outcome: Outcome) {
        if std::mem::take(&mut self.open[index]) {
            self.left -= 1;
            self.report.outcome(index, outcome);
        }
    }
}

/// The command that publishes an entry, or why there is none.
fn command(entry: &Entry, options: &Options, payload_bytes_max: usize) -> Result<Cmd, Outcome> {
    let stream = options.stream.render(entry);
    if stream.is_empty() {
        return Err(error::unroutable());
    }
    if entry.payload.len() > payload_bytes_max {
        return Err(error::too_large(entry.payload.len(), payload_bytes_max));
    }
    let mut command = redis::cmd("XADD");
    command.arg(&*stream);
    if let Some(maxlen) = options.maxlen {
        // About: the server deletes whole nodes of the stream, which costs next to nothing.
        command.arg("MAXLEN").arg("~").arg(maxlen);
    }
    command.arg("*");
    binding::write(&Envelope::of(entry, &options.source), &mut command);
    Ok(command)
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.live.distrust();
        }
    }
}
