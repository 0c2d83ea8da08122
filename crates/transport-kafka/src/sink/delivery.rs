//! One batch on its way: what was handed to the producer, what was confirmed, and what is left when nobody answers.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use krafka::KrafkaError;
use krafka::producer::{Record, RecordMetadata};
use pillarbox_core::port::Report;
use pillarbox_core::{Entry, Outcome};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::connection::{Connection, Live, delivery_timeout};
use crate::options::{check_topic, escape};
use crate::{binding, error};

use super::runs::{Run, Told, Work, divide};

/// How long a chunk stays open. The producer would close its batches by itself after [`LINGER`](crate::connection::LINGER), which is longer.
const CHUNK_TIME: Duration = Duration::from_millis(200);
/// How often a delivery looks whether the client repeats its requests.
const LOOK: Duration = Duration::from_millis(200);
/// After how long without an answer a delivery asks, also if the client repeats nothing: it may look for the server still.
const SILENCE: Duration = Duration::from_secs(1);
/// How much longer than the client a delivery waits for an answer.
const GRACE: Duration = Duration::from_secs(2);

/// What became of a written entry, by its index, and whether it was alone in its chunk.
type Answer = (usize, bool, Result<RecordMetadata, KrafkaError>);

/// Records that the producer gets between two closings of its batches. Each partition has at most one batch of them, which
/// the server takes as a whole or not at all.
struct Chunk {
    bytes: usize,
    until: Instant,
    records: Vec<(usize, BoxFuture<'static, Result<RecordMetadata, KrafkaError>>)>,
}

impl Chunk {
    fn new() -> Self {
        Self { bytes: 0, until: Instant::now() + CHUNK_TIME, records: Vec::new() }
    }
}

/// Why a record was not handed over.
enum Refused {
    /// The chunk is full or open for too long. The record belongs to the next one.
    Full,
    Outcome(Outcome),
}

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
    work: VecDeque<Work>,
    run_of: Vec<Option<usize>>,
    runs: Vec<Run>,
    /// Topics that were looked up, and why one cannot be written to.
    topics: HashMap<String, Option<Outcome>>,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// When a server last said that it is there.
    asked: Option<Instant>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        live: Live,
        batch: &'a [Entry],
        report: &'a dyn Report,
    ) -> Self {
        let (work, run_of, runs) = divide(batch);
        Self {
            connection,
            live,
            batch,
            report,
            open: vec![true; batch.len()],
            left: batch.len(),
            work,
            run_of,
            runs,
            topics: HashMap::new(),
            answers: FuturesUnordered::new(),
            asked: None,
        }
    }

    pub(super) async fn run(mut self, turns: &Mutex<()>, turn: MutexGuard<'_, ()>) {
        let mut repetitions = self.live.repetitions();
        self.write().await;
        drop(turn);
        let patience = delivery_timeout(self.connection.options()) + GRACE;
        let mut deadline = Instant::now() + patience;
        let mut heard = Instant::now();
        let mut look = tokio::time::interval(LOOK);
        while self.left > 0 {
            tokio::select! {
                biased;
                Some((index, is_alone, answer)) = self.answers.next() => {
                    heard = Instant::now();
                    deadline = heard + patience;
                    self.answered(index, is_alone, answer).await;
                    // Answers that are there already may free more work. All of it is written together.
                    while let Some(Some((index, is_alone, answer))) = self.answers.next().now_or_never() {
                        self.answered(index, is_alone, answer).await;
                    }
                    if !self.work.is_empty() {
                        let turn = turns.lock().await;
                        self.write().await;
                        drop(turn);
                    }
                }
                _ = look.tick() => {
                    // The client repeats what had no answer. If no server is there any more, the entries need not wait
                    // until it gives up.
                    let now = self.live.repetitions();
                    let asked = self.asked.unwrap_or(heard).max(heard);
                    if now != std::mem::replace(&mut repetitions, now) || asked.elapsed() >= SILENCE {
                        self.ask().await;
                    }
                }
                () = tokio::time::sleep_until(deadline) => self.give_up(&error::no_answer()),
            }
        }
    }

    /// Writes all work that there is. The caller has the turn.
    async fn write(&mut self) {
        let mut chunk = Chunk::new();
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::One(index) => {
                    if let Err(refused) = self.add(&mut chunk, index).await {
                        match refused {
                            Refused::Full => {
                                self.work.push_front(work);
                                self.close(&mut chunk);
                            }
                            Refused::Outcome(outcome) => self.settle(index, outcome),
                        }
                    }
                }
                Work::Alone(index) => {
                    self.close(&mut chunk);
                    if let Err(Refused::Outcome(outcome)) = self.add(&mut chunk, index).await {
                        self.settle(index, outcome);
                    }
                    self.close(&mut chunk);
                }
                Work::Run(number) => self.write_run(&mut chunk, number).await,
            }
        }
        self.close(&mut chunk);
    }

    /// Writes the next entries of a run into one chunk: those of one topic, as many as fit.
    async fn write_run(&mut self, chunk: &mut Chunk, number: usize) {
        let mut topic = None;
        if self.runs[number].one_by_one {
            self.close(chunk);
        }
        while let Some(index) = self.runs[number].next() {
            let name = self.topic(index);
            if topic.get_or_insert_with(|| name.clone()) != &name {
                break;
            }
            match self.add(chunk, index).await {
                Ok(()) => self.runs[number].write(),
                Err(Refused::Full) => {
                    if self.runs[number].waits_for() == 0 {
                        self.work.push_front(Work::Run(number));
                        self.close(chunk);
                    }
                    break;
                }
                // What is before it is on its way. If that fails, this one is held back and not refused.
                Err(Refused::Outcome(_)) if self.runs[number].waits_for() > 0 => break,
                Err(Refused::Outcome(outcome)) => {
                    let held_back = self.runs[number].stop();
                    self.settle(index, outcome);
                    held_back.into_iter().for_each(|index| self.settle(index, Outcome::Untried));
                    break;
                }
            }
            if self.runs[number].one_by_one {
                self.close(chunk);
                break;
            }
        }
    }

    fn topic(&self, index: usize) -> String {
        self.connection.options().topic.render_with(&self.batch[index], escape)
    }

    /// Hands a record to the producer as a part of this chunk.
    async fn add(&mut self, chunk: &mut Chunk, index: usize) -> Result<(), Refused> {
        if self.live.is_given_up() {
            return Err(Refused::Outcome(error::given_up_before()));
        }
        let topic = self.topic(index);
        check_topic(&topic).map_err(|error| Refused::Outcome(error::unroutable(&error)))?;
        self.look_up(&topic, chunk).await?;
        let record: Record = binding::record(&self.batch[index], &self.connection.options().source, &topic);
        let bytes = record.estimated_size();
        let is_first = chunk.records.is_empty();
        let is_full =
            chunk.bytes + bytes > self.connection.options().batch_bytes || Instant::now() >= chunk.until;
        if !is_first && is_full {
            return Err(Refused::Full);
        }
        let handing = self.live.producer().enqueue(record);
        let handed = if is_first {
            let handed = handing.await;
            chunk.until = Instant::now() + CHUNK_TIME;
            handed
        } else {
            // A record that was not handed over is not written: the client says so.
            tokio::time::timeout_at(chunk.until, handing).await.map_err(|_| Refused::Full)?
        };
        match handed {
            Ok(handle) => {
                chunk.bytes += bytes;
                chunk.records.push((index, handle.boxed()));
                Ok(())
            }
            Err(error) => {
                if error::ends_producer(&error) {
                    self.live.give_up();
                }
                let outcome = match error {
                    KrafkaError::Timeout { operation } => {
                        let text = format!("the client took nothing more in time: {operation}");
                        self.refuse(topic, Outcome::down("no_answer", text)).await
                    }
                    KrafkaError::Closed { .. } => error::given_up_before(),
                    error => error::unconfirmed(&error, &topic, true).unwrap_or_else(error::no_answer),
                };
                Err(Refused::Outcome(outcome))
            }
        }
    }

    /// Learns the partitions of a topic, so that handing over a record need not wait for them.
    async fn look_up(&mut self, topic: &str, chunk: &mut Chunk) -> Result<(), Refused> {
        if let Some(known) = self.topics.get(topic) {
            return known.clone().map_or(Ok(()), |outcome| Err(Refused::Outcome(outcome)));
        }
        if !chunk.records.is_empty() {
            return Err(Refused::Full);
        }
        let found = self.live.producer().partitions_for(topic).await;
        let outcome = match found {
            Ok(_) => {
                self.topics.insert(topic.to_owned(), None);
                return Ok(());
            }
            Err(KrafkaError::Timeout { .. }) => {
                let address = self.connection.options().address();
                let text = format!("{address} does not tell where topic {topic:?} is");
                self.refuse(topic.to_owned(), Outcome::down("no_answer", text)).await
            }
            Err(cause) => {
                let outcome = error::unconfirmed(&cause, topic, true).unwrap_or_else(error::no_answer);
                self.topics.insert(topic.to_owned(), Some(outcome.clone()));
                outcome
            }
        };
        Err(Refused::Outcome(outcome))
    }

    /// The topic takes nothing in time. No other record of the delivery waits as long again, or the delivery would last
    /// until its deadline and its records would lose an attempt.
    async fn refuse(&mut self, topic: String, outcome: Outcome) -> Outcome {
        self.topics.insert(topic, Some(outcome.clone()));
        self.ask().await;
        outcome
    }

    /// Closes the producer's batches, so that they are sent and nothing more is added to them.
    fn close(&mut self, chunk: &mut Chunk) {
        let Chunk { records, .. } = std::mem::replace(chunk, Chunk::new());
        if records.is_empty() {
            return;
        }
        // The first look closes the batches. Waiting for their answers is the delivery's own part.
        let _ = self.live.producer().flush().now_or_never();
        let is_alone = records.len() == 1;
        for (index, answer) in records {
            self.answers.push(answer.map(move |answer| (index, is_alone, answer)).boxed());
        }
    }

    /// Takes the answer to an entry.
    async fn answered(&mut self, index: usize, is_alone: bool, answer: Result<RecordMetadata, KrafkaError>) {
        let told = match answer {
            Ok(_) => Told::Settled(Outcome::Confirmed),
            Err(error) => {
                if error::ends_producer(&error) {
                    self.live.give_up();
                }
                match error {
                    // Another delivery found nobody, whatever was said before.
                    KrafkaError::Closed { .. } => {
                        self.asked = None;
                        self.ask().await;
                    }
                    KrafkaError::DeliveryTimeout { .. } => self.ask().await,
                    _ => {}
                }
                match error::unconfirmed(&error, &self.topic(index), is_alone) {
                    Some(outcome) => Told::Settled(outcome),
                    None => Told::TooLargeTogether,
                }
            }
        };
        let Some(number) = self.run_of[index] else {
            return match told {
                Told::Settled(outcome) => self.settle(index, outcome),
                Told::TooLargeTogether => self.work.push_back(Work::Alone(index)),
            };
        };
        if let Some(outcomes) = self.runs[number].answer(index, told) {
            outcomes.into_iter().for_each(|(index, outcome)| self.settle(index, outcome));
            if self.runs[number].next().is_some() {
                self.work.push_back(Work::Run(number));
            }
        }
    }

    /// Asks whether a server is still there, at most once a [`LOOK`], and gives up if there is none.
    async fn ask(&mut self) {
        if self.left == 0 || self.asked.is_some_and(|asked| asked.elapsed() < LOOK) {
            return;
        }
        match self.connection.ask(&self.live).await {
            Ok(()) => self.asked = Some(Instant::now()),
            Err(cause) => self.give_up(&error::down(&cause)),
        }
    }

    /// Nobody answers any more. What was written may have arrived; but nobody is there to be asked again, and the entries
    /// wait until there is one.
    fn give_up(&mut self, outcome: &Outcome) {
        self.live.give_up();
        self.work.clear();
        (0..self.batch.len()).for_each(|index| self.settle(index, outcome.clone()));
    }

    fn settle(&mut self, index: usize, outcome: Outcome) {
        if std::mem::take(&mut self.open[index]) {
            self.left -= 1;
            self.report.outcome(index, outcome);
        }
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.live.give_up();
        }
    }
}
