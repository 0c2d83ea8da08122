//! One batch on its way: what was confirmed, and what is left when the connection goes.

use std::future::Future;
use std::pin::Pin;
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
use crate::options::{Medium, Options};

use super::runs::{Divided, Run, divide};

/// Commands of one request. A batch is several requests, so that their answers come as they are there, and those that
/// came before the connection was lost are known.
const PART: usize = 50;

/// What is to be sent in one request.
enum Part {
    Single(Vec<usize>),
    Run(Run),
}

/// What was sent in one request, by the indexes of the entries.
enum Sent {
    /// Each by itself.
    Single(Vec<usize>),
    /// In one transaction, and what is left of the run.
    Together(Vec<usize>, Run),
}

type Request = Pin<Box<dyn Future<Output = (Sent, RedisResult<Vec<Value>>)> + Send>>;

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
        let (live, limit) = (self.live.clone(), payload_bytes_max);
        let mut awaited = FuturesUnordered::new();
        let Divided { single, runs } = divide(self.batch);
        let parts = single.chunks(PART).map(|part| Part::Single(part.to_vec()));
        // The first look at a request hands it to the connection, which writes all that waits at once. So we look in the
        // order of the batch, and nothing may make a request wait for its turn.
        for part in parts.chain(runs.into_iter().map(Part::Run)) {
            let Some(mut request) = self.request(part, limit) else { continue };
            match poll!(&mut request) {
                Poll::Ready((sent, answers)) => awaited.extend(self.answered(sent, answers, limit)),
                Poll::Pending => awaited.push(request),
            }
        }
        drop(turn);
        let deadline = tokio::time::sleep(self.connection.options().confirm_timeout);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                answer = awaited.next() => match answer {
                    Some((sent, answers)) => awaited.extend(self.answered(sent, answers, limit)),
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

    /// The request for a part of the batch. An entry that has no command gets its outcome at once.
    fn request(&mut self, part: Part, limit: usize) -> Option<Request> {
        match part {
            Part::Single(indexes) => {
                let mut commands = Pipeline::with_capacity(indexes.len());
                let (mut sent, options) = (Vec::with_capacity(indexes.len()), self.connection.options());
                for index in indexes {
                    match command(&self.batch[index], options, limit) {
                        Ok(command) => {
                            sent.push(index);
                            commands.add_command(command);
                        }
                        Err(outcome) => self.settle(index, outcome),
                    }
                }
                Some(self.send(Sent::Single(sent), commands))
            }
            Part::Run(run) => self.request_next(run, limit),
        }
    }

    /// The request for the next entries of a run, in one transaction of the server. An entry that has no command stops
    /// what is behind it.
    fn request_next(&mut self, mut run: Run, limit: usize) -> Option<Request> {
        let options = self.connection.options();
        let together = run.next(self.batch, |entry| options.stream.render(entry).into_owned());
        let mut commands = Pipeline::with_capacity(together.len() + 2);
        commands.cmd("MULTI");
        let mut sent = Vec::with_capacity(together.len());
        let mut together = together.into_iter();
        while let Some(index) = together.next() {
            match command(&self.batch[index], options, limit) {
                Ok(command) => {
                    sent.push(index);
                    commands.add_command(command);
                }
                Err(outcome) => {
                    self.settle(index, outcome);
                    self.hold_back(together.by_ref().chain(std::mem::take(&mut run).rest()));
                }
            }
        }
        commands.cmd("EXEC");
        (!sent.is_empty()).then(|| self.send(Sent::Together(sent, run), commands))
    }

    fn send(&self, sent: Sent, commands: Pipeline) -> Request {
        let mut connection = self.live.commands.clone();
        let request = async move {
            let answers = connection.send_packed_commands(&commands, 0, commands.len()).await;
            (sent, answers)
        };
        Box::pin(tokio::task::unconstrained(request))
    }

    /// Takes the answers to a request, and returns the one that follows it.
    fn answered(&mut self, sent: Sent, answers: RedisResult<Vec<Value>>, limit: usize) -> Option<Request> {
        // Otherwise the connection is gone, and with it the answers to all of them.
        let answers = answers.ok()?;
        match sent {
            Sent::Single(indexes) => {
                for (index, answer) in indexes.into_iter().zip(answers) {
                    self.told(index, answer);
                }
                None
            }
            Sent::Together(indexes, run) => {
                let mut indexes = indexes.into_iter();
                for answer in executed(answers) {
                    if !indexes.next().is_some_and(|index| self.told(index, answer)) {
                        self.hold_back(indexes.chain(run.rest()));
                        return None;
                    }
                }
                self.request_next(run, limit)
            }
        }
    }

    /// Reports what the server says of an entry, and returns whether it has it.
    fn told(&mut self, index: usize, answer: Value) -> bool {
        let outcome = match answer.extract_error() {
            Ok(_id) => Some(Outcome::Confirmed),
            Err(error) => {
                let options = self.connection.options();
                let name = options.stream.render(&self.batch[index]);
                error::unconfirmed(&error, options.medium, &name)
            }
        };
        let is_confirmed = outcome == Some(Outcome::Confirmed);
        if let Some(outcome) = outcome {
            self.settle(index, outcome);
        }
        is_confirmed
    }

    /// What stands behind an entry that was not delivered.
    fn hold_back(&mut self, indexes: impl Iterator<Item = usize>) {
        indexes.for_each(|index| self.settle(index, Outcome::Untried));
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

/// What a transaction says of each of its commands. Where a command was refused before the transaction began, the server adds
/// none of them: then only the first reason is told.
fn executed(mut answers: Vec<Value>) -> Vec<Value> {
    match answers.pop() {
        Some(Value::Array(each)) => each,
        last => {
            let refused = answers.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
            refused.or(last).into_iter().collect()
        }
    }
}

/// The command that publishes an entry, or why there is none.
fn command(entry: &Entry, options: &Options, payload_bytes_max: usize) -> Result<Cmd, Outcome> {
    let stream = options.stream.render(entry);
    if stream.is_empty() {
        return Err(error::unroutable(options.medium));
    }
    if entry.payload.len() > payload_bytes_max {
        return Err(error::too_large(entry.payload.len(), payload_bytes_max));
    }
    let envelope = Envelope::of(entry, &options.source);
    if options.medium == Medium::Channel {
        let mut command = redis::cmd("PUBLISH");
        command.arg(&*stream).arg(envelope.to_json_line().trim_ascii_end());
        return Ok(command);
    }
    let mut command = redis::cmd("XADD");
    command.arg(&*stream);
    if let Some(maxlen) = options.maxlen {
        // About: the server deletes whole nodes of the stream, which costs next to nothing.
        command.arg("MAXLEN").arg("~").arg(maxlen);
    }
    command.arg("*");
    binding::write(&envelope, &mut command);
    Ok(command)
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.live.distrust();
        }
    }
}
