//! One batch on its way: what was sent, what was confirmed, and what is left when the server does not answer.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::Report;
use pillarbox_core::{Entry, Error, Outcome};
use tokio::sync::{MutexGuard, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::binding;
use crate::connection::{Connection, Live, within};
use crate::error::{self, Trouble, What};

use super::parcel::{Next, Parcel, Waiting};

/// How long entries of one key are sent after each other. Those that are left after it are for a later delivery: otherwise a
/// key with many entries would delay all others, and the relay's deadline would find entries that were never sent.
const SEQUENCE_MAX: Duration = Duration::from_secs(5);

/// The right to send: the delivery that has it sends a whole batch.
type Turn<'a> = MutexGuard<'a, ()>;
/// What the server said to a request.
type Answer = (Parcel, Result<SendMessageBatchOutput, Trouble>);

/// A batch that is being delivered. Dropped before its end, it leaves queues behind that nobody trusts: some confirmation
/// did not come in time.
pub(super) struct Delivery<'a> {
    connection: &'a Connection,
    requests: &'a Semaphore,
    batch: &'a [Entry],
    report: &'a dyn Report,
    waiting: Waiting<'a>,
    /// The request that goes next.
    ready: Option<Parcel>,
    /// Whether each entry has no outcome yet.
    open: Vec<bool>,
    left: usize,
    /// Queues to which something was sent.
    used: HashSet<String>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        requests: &'a Semaphore,
        batch: &'a [Entry],
        report: &'a dyn Report,
    ) -> Self {
        let (waiting, open) = (Waiting::new(batch, connection.options()), vec![true; batch.len()]);
        let (ready, left, used) = (None, batch.len(), HashSet::new());
        Self { connection, requests, batch, report, waiting, ready, open, left, used }
    }

    pub(super) async fn run(mut self, turn: Turn<'_>) {
        let mut turn = Some(turn);
        let mut answers: FuturesUnordered<BoxFuture<'a, Answer>> = FuturesUnordered::new();
        let begin = Instant::now();
        while self.left > 0 {
            if self.ready.is_none() {
                if begin.elapsed() > SEQUENCE_MAX {
                    let behind = self.waiting.behind();
                    behind.into_iter().for_each(|index| self.settle(index, Outcome::Untried));
                }
                self.ready = self.next();
            }
            if self.ready.is_none() && self.waiting.is_empty() {
                turn = None;
            }
            let requests = self.requests;
            tokio::select! {
                biased;
                Some((parcel, answer)) = answers.next(), if !answers.is_empty() => {
                    self.answered(parcel, answer).await;
                }
                // The semaphore is never closed.
                Ok(permit) = requests.acquire(), if self.ready.is_some() => {
                    if let Some(parcel) = self.ready.take() {
                        match self.connection.queue(&parcel.queue).await {
                            Ok(live) => answers.push(self.send(live, parcel, permit)),
                            Err(error) => self.refuse(&parcel, &error),
                        }
                    }
                }
                else => break,
            }
        }
        drop(turn);
    }

    /// The next request. Entries that cannot be sent get their outcome.
    fn next(&mut self) -> Option<Parcel> {
        loop {
            match self.waiting.next() {
                Next::Parcel(parcel) => return Some(parcel),
                Next::Refused(index, outcome) => self.settle(index, outcome),
                Next::Nothing => return None,
            }
        }
    }

    fn send(&mut self, live: Live, parcel: Parcel, permit: SemaphorePermit<'a>) -> BoxFuture<'a, Answer> {
        let options = self.connection.options();
        let is_fifo = options.is_fifo();
        self.used.insert(parcel.queue.clone());
        let entries = parcel.messages.iter().enumerate().map(|(number, (index, body))| {
            let entry = &self.batch[*index];
            SendMessageBatchRequestEntry::builder()
                .id(number.to_string())
                .message_body(body)
                .set_message_group_id(is_fifo.then(|| binding::group(entry)))
                .set_message_deduplication_id(is_fifo.then(|| entry.event_id.to_string()))
                .build()
        });
        // All that is required is set, so that none is left out.
        let entries: Vec<_> = entries.filter_map(Result::ok).collect();
        let asking = live.client.send_message_batch().queue_url(live.url).set_entries(Some(entries)).send();
        Box::pin(async move {
            let answer = within(options.confirm_timeout, asking).await;
            drop(permit);
            (parcel, answer)
        })
    }

    async fn answered(&mut self, parcel: Parcel, answer: Result<SendMessageBatchOutput, Trouble>) {
        match answer {
            Ok(answer) => self.confirmed(&parcel, &answer),
            Err(trouble) if trouble.what == What::TooLarge && parcel.messages.len() > 1 => {
                self.waiting.divide(&parcel)
            }
            Err(trouble) => self.failed(&parcel, &trouble).await,
        }
    }

    /// The server took the request, and says of each message what became of it.
    fn confirmed(&mut self, parcel: &Parcel, answer: &SendMessageBatchOutput) {
        let options = self.connection.options();
        let of = |id: &str| parcel.messages.get(id.parse::<usize>().ok()?).map(|(index, _)| *index);
        for index in answer.successful.iter().filter_map(|one| of(&one.id)) {
            self.settle(index, Outcome::Confirmed);
        }
        for one in &answer.failed {
            if let Some(index) = of(&one.id) {
                let text = one.message.as_deref().unwrap_or_default();
                self.settle(
                    index,
                    error::refused_one(&one.code, text, one.sender_fault, options, &parcel.queue),
                );
            }
        }
        parcel.indexes().for_each(|index| self.settle(index, error::unmentioned()));
    }

    /// The request has no answer, or was refused as a whole.
    async fn failed(&mut self, parcel: &Parcel, trouble: &Trouble) {
        let options = self.connection.options();
        let outcome = match trouble.outcome(options, &parcel.queue) {
            Some(outcome) => outcome,
            None => {
                // What was written may have arrived; but where nobody answers any more, nobody is there to be asked
                // again, and the entries wait until there is one, without an attempt spent.
                self.connection.distrust(&parcel.queue);
                match self.connection.queue(&parcel.queue).await {
                    Ok(_) => error::lost(),
                    Err(error) => error::down(&error, options),
                }
            }
        };
        let rest = match (&outcome, trouble.what) {
            (_, What::Lost) => {
                Some(if matches!(outcome, Outcome::Down(_)) { outcome.clone() } else { error::lost_before() })
            }
            (_, What::NoAnswer) => Some(error::stuck()),
            // It would be the same for all of them.
            (Outcome::Down(_) | Outcome::Busy { .. }, _) if options.queue.constant().is_some() => {
                Some(outcome.clone())
            }
            _ => None,
        };
        if !matches!(outcome, Outcome::Rejected(_) | Outcome::Failed { .. }) {
            self.connection.distrust(&parcel.queue);
        }
        parcel.indexes().for_each(|index| self.settle(index, outcome.clone()));
        if let Some(rest) = rest {
            self.give_up(&rest);
        }
    }

    /// The queue cannot be used, so nothing of the request was sent.
    fn refuse(&mut self, parcel: &Parcel, error: &Error) {
        let options = self.connection.options();
        let outcome = error::down(error, options);
        parcel.indexes().for_each(|index| self.settle(index, outcome.clone()));
        if options.queue.constant().is_some() {
            self.give_up(&outcome);
        }
    }

    /// Nothing more is sent.
    fn give_up(&mut self, outcome: &Outcome) {
        let ready = self.ready.take();
        let ready = ready.iter().flat_map(Parcel::indexes);
        for index in ready.chain(self.waiting.take()) {
            self.settle(index, outcome.clone());
        }
    }

    fn settle(&mut self, index: usize, outcome: Outcome) {
        if !std::mem::take(&mut self.open[index]) {
            return;
        }
        self.left -= 1;
        self.waiting.free(index);
        let is_confirmed = outcome == Outcome::Confirmed;
        self.report.outcome(index, outcome);
        if !is_confirmed && self.connection.options().is_fifo() {
            for behind in self.waiting.hold_back(index) {
                self.settle(behind, Outcome::Untried);
            }
        }
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.used.iter().for_each(|queue| self.connection.distrust(queue));
        }
    }
}
