//! The entries of one key: each goes when the one before it is stored, or many go together as one atomic batch.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE};
use async_nats::jetstream::publish::PublishAck;
use async_nats::{HeaderMap, Subject};
use pillarbox_core::Outcome;
use tokio::time::Instant;

use crate::binding;
use crate::connection::Denials;
use crate::error::{self, Whole};
use crate::options;

use super::super::batches::Known;
use super::{Delivery, Open};

/// Fewer go one by one: a batch costs the server as much as many messages do.
const TOGETHER_MIN: usize = 16;
/// Most bytes of a batch.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long entries of one key follow each other in one delivery. What is left then is tried in the next one: at the
/// relay's deadline it would count as tried.
const FOLLOWING_MAX: Duration = Duration::from_secs(2);
/// What the last message of a batch has beside the others.
const COMMIT_BYTES: usize = "Nats-Batch-Commit: 1\r\n".len();

/// Messages that a stream stores as a whole or not at all.
struct Together {
    stream: Arc<Known>,
    id: String,
    messages: Vec<Message>,
}

struct Message {
    index: usize,
    subject: Subject,
    headers: HeaderMap,
}

/// An entry that is stored.
struct Stored {
    /// How long its confirmation took.
    took: Duration,
    /// Whether the stream had it before.
    is_repeated: bool,
}

/// What became of a batch.
enum Told {
    Stored,
    /// Nothing of it is stored.
    Refused,
    /// It is unknown whether it is stored.
    Unknown,
}

impl Delivery<'_> {
    /// Delivers the entries of one key. One that fails stops those behind it.
    pub(super) async fn follow(&self, run: &[usize], payload_bytes_max: usize) {
        // Before anything is written: a refusal may come before anybody waits for it.
        let mut denials = self.live.denials();
        let (mut left, begun) = (run, Instant::now());
        // How many of the next entries go one by one. The first does, to learn how long that takes.
        let (mut one_by_one, mut single) = (1, Duration::ZERO);
        while let Some(first) = left.first().copied() {
            if one_by_one == 0 {
                match self.gather(left, single, payload_bytes_max).await {
                    Ok(together) => {
                        let count = together.messages.len();
                        match self.deliver_together(together, &mut denials).await {
                            Told::Stored => left = &left[count..],
                            Told::Refused => one_by_one = count,
                            Told::Unknown => break,
                        }
                        continue;
                    }
                    Err(few) => one_by_one = few.max(1),
                }
            }
            one_by_one -= 1;
            left = &left[1..];
            match self.deliver_next(first, payload_bytes_max, &mut denials).await {
                // The next one may have been here before too, and a batch with it would be refused.
                Some(Stored { is_repeated: true, .. }) => one_by_one = one_by_one.max(1),
                Some(Stored { took, .. }) => single = took,
                None => break,
            }
            if begun.elapsed() > FOLLOWING_MAX {
                break;
            }
        }
        self.hold_back(left);
    }

    /// What stands behind an entry that was not delivered, and was not written.
    pub(super) fn hold_back(&self, indexes: &[usize]) {
        for index in indexes {
            if matches!(self.progress().open[*index], Some(Open::Waiting)) {
                self.settle(*index, Outcome::Untried);
            }
        }
    }

    /// The next entries as a batch, or how many of them are too few for one.
    async fn gather(
        &self,
        left: &[usize],
        single: Duration,
        payload_bytes_max: usize,
    ) -> Result<Together, usize> {
        if left.len() < TOGETHER_MIN {
            return Err(left.len());
        }
        let settings = self.connection.options();
        let subject = settings.subject.render(&self.batch[left[0]]);
        options::publishable(&subject).map_err(|_| 1_usize)?;
        let stream = self.live.batches.stream(&self.live, settings, &subject).await.ok_or(left.len())?;
        let most = left.len().min(stream.messages_max());
        if !stream.is_worth(most, single) {
            return Err(left.len());
        }
        let id = format!("{:016x}{:016x}", pillarbox_host::random_u64(), pillarbox_host::random_u64());
        let message_bytes_max = self.live.client().max_payload();
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for index in left.iter().copied().take(most) {
            let entry = &self.batch[index];
            let Ok((subject, mut headers)) = self.address(entry, payload_bytes_max) else { break };
            headers.insert(NATS_BATCH_ID, id.as_str());
            headers.insert(NATS_BATCH_SEQUENCE, (messages.len() + 1).to_string());
            let size = binding::bytes(&headers) + COMMIT_BYTES + entry.payload.len();
            bytes += size;
            if size > message_bytes_max || bytes > BYTES_MAX || !stream.takes(&subject) {
                break;
            }
            messages.push(Message { index, subject, headers });
        }
        let count = messages.len();
        match messages.last_mut() {
            Some(last) if count >= TOGETHER_MIN && stream.start() => {
                last.headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
                Ok(Together { stream, id, messages })
            }
            _ => Err(count),
        }
    }

    /// Sends a batch and waits for the one answer to it.
    async fn deliver_together(&self, together: Together, denials: &mut Denials) -> Told {
        let Together { stream, id, messages } = together;
        let begun = Instant::now();
        let _turn = self.live.batches.turn().await;
        let indexes: Vec<usize> = messages.iter().map(|message| message.index).collect();
        let subjects: Vec<Subject> = messages.iter().map(|message| message.subject.clone()).collect();
        let sent = tokio::time::timeout(self.connection.options().confirm_timeout, self.send(messages));
        let answer = tokio::select! {
            biased;
            answer = sent => answer.unwrap_or_else(|_| Err(Whole::Unknown(error::no_answer()))),
            // The server has refused one of them, so the batch cannot be whole.
            () = denials.until(|denied| subjects.iter().any(|subject| subject.as_str() == denied)) => {
                Err(Whole::NotStored(None))
            }
        };
        let answer = answer.and_then(|ack| is_whole(&ack, &id, indexes.len()));
        match answer {
            Ok(()) => {
                indexes.iter().for_each(|index| self.settle(*index, Outcome::Confirmed));
                stream.stored(begun.elapsed());
                Told::Stored
            }
            Err(Whole::NotStored(code)) => {
                stream.refused(code, indexes.len());
                self.reopen(&indexes);
                Told::Refused
            }
            Err(Whole::Unknown(outcome)) => {
                self.live.distrust();
                indexes.iter().for_each(|index| self.settle(*index, outcome.clone()));
                Told::Unknown
            }
            // What that means is decided for all entries at once, in `lose`.
            Err(Whole::Lost) => Told::Unknown,
        }
    }

    /// Writes a batch. Only its last message has an answer.
    async fn send(&self, messages: Vec<Message>) -> Result<PublishAck, Whole> {
        let client = self.live.client();
        let mut messages = messages.into_iter();
        while let Some(Message { index, subject, headers }) = messages.next() {
            let payload = self.batch[index].payload.clone().into();
            self.mark(index, Open::Following);
            // Without its last message, a batch is never stored.
            if messages.len() > 0 {
                let sent = client.publish_with_headers(subject, headers, payload).await;
                sent.map_err(|_| Whole::NotStored(None))?;
            } else {
                let sent = self.live.context.publish_with_headers(subject, headers, payload).await;
                let answer = sent.map_err(|_| Whole::NotStored(None))?.into_future().await;
                return answer.map_err(|error| error::whole(&error));
            }
        }
        Err(Whole::NotStored(None))
    }

    /// Sends one entry and waits for its confirmation. `None`: it is not stored, or nobody knows.
    async fn deliver_next(
        &self,
        index: usize,
        payload_bytes_max: usize,
        denials: &mut Denials,
    ) -> Option<Stored> {
        let (entry, begun) = (&self.batch[index], Instant::now());
        let addressed = self.address(entry, payload_bytes_max);
        let (subject, headers) = addressed.map_err(|outcome| self.settle(index, outcome)).ok()?;
        let payload = entry.payload.clone().into();
        self.mark(index, Open::Following);
        let sent = self.live.context.publish_with_headers(subject.clone(), headers, payload).await;
        let confirm = sent.map_err(|error| self.settle(index, error::unsent(&error))).ok()?;
        tokio::select! {
            biased;
            confirmed = confirm.into_future() => {
                let is_repeated = self.confirmed(index, &subject, confirmed)?.duplicate;
                Some(Stored { took: begun.elapsed(), is_repeated })
            }
            () = denials.until(|denied| subject.as_str() == denied) => {
                self.settle(index, error::denied(&subject));
                None
            }
        }
    }
}

/// Whether the server has stored this batch as one. A server that does not know batches would confirm the last message.
fn is_whole(ack: &PublishAck, id: &str, messages: usize) -> Result<(), Whole> {
    let count = ack.batch_size.and_then(|count| usize::try_from(count).ok());
    if ack.batch_id.as_deref() == Some(id) && count == Some(messages) {
        return Ok(());
    }
    Err(Whole::Unknown(error::not_whole()))
}
