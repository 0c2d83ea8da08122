//! One batch on its way: what was written, what was confirmed, and what is left when the connection goes.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::Report;
use pillarbox_core::{Entry, Envelope, Outcome};
use rumqttc::{PubCompReason, Publish, PublishNoticeError, PublishOptions, PublishProperties, PublishResult};
use tokio::sync::{MutexGuard, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::connection::{Connection, Live};
use crate::options::{Medium, escape, publishable};
use crate::{binding, error};

use super::HEADERS_BYTES;

/// The right to write: the delivery that has it writes a whole batch.
type Turn<'a> = MutexGuard<'a, ()>;
/// What became of a written entry, by its index. The place in the server's window is free with it.
type Answer = (usize, Result<PublishResult, PublishNoticeError>);

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
    /// How many entries were written, or have their outcome without.
    written: usize,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        live: Live,
        batch: &'a [Entry],
        report: &'a dyn Report,
    ) -> Self {
        let open = vec![true; batch.len()];
        Self { connection, live, batch, report, open, left: batch.len(), written: 0 }
    }

    pub(super) async fn run(mut self, turn: Turn<'_>) {
        let (live, window) = (self.live.clone(), self.live.window.clone());
        let patience = self.connection.options().confirm_timeout;
        let mut turn = Some(turn);
        let mut answers: FuturesUnordered<BoxFuture<'static, Answer>> = FuturesUnordered::new();
        let mut deadline = Instant::now() + patience;
        let lost = live.lost();
        tokio::pin!(lost);
        while self.left > 0 {
            while self.written < self.batch.len()
                && let Ok(place) = window.clone().try_acquire_owned()
            {
                answers.extend(self.write_next(place));
            }
            if self.written == self.batch.len() {
                turn = None;
                if answers.is_empty() && self.connection.options().medium == Medium::Qos0 {
                    self.taken().await;
                }
            }
            tokio::select! {
                biased;
                Some((index, answer)) = answers.next(), if !answers.is_empty() => {
                    deadline = Instant::now() + patience;
                    self.answered(index, answer);
                }
                () = &mut lost, if self.left > 0 => break,
                // The semaphore is never closed.
                Ok(place) = window.clone().acquire_owned(), if turn.is_some() => {
                    if answers.is_empty() {
                        deadline = Instant::now() + patience;
                    }
                    answers.extend(self.write_next(place));
                }
                () = tokio::time::sleep_until(deadline), if !answers.is_empty() => {
                    live.distrust();
                    self.settle_open(|is_written| if is_written { error::no_answer() } else { error::stuck() });
                }
                else => {}
            }
        }
        if self.left > 0 {
            self.lose().await;
        }
    }

    /// Writes the next entry that can be, and returns the wait for its confirmation.
    fn write_next(&mut self, place: OwnedSemaphorePermit) -> Option<BoxFuture<'static, Answer>> {
        let index = self.written;
        self.written += 1;
        let (topic, properties) = match self.address(&self.batch[index]) {
            Ok(addressed) => addressed,
            Err(outcome) => {
                self.settle(index, outcome);
                return None;
            }
        };
        let options = PublishOptions::new(self.connection.options().publish_qos()).properties(properties);
        let payload = self.batch[index].payload.clone();
        // An error means that the connection is gone, and what becomes of the entry is decided for all at once.
        let notice = self.live.client.try_publish_tracked(topic, payload, options).ok()?;
        Some(Box::pin(async move {
            let answer = notice.wait_async().await;
            drop(place);
            (index, answer)
        }))
    }

    /// The topic and the properties of an entry, or why it has none.
    fn address(&self, entry: &Entry) -> Result<(String, PublishProperties), Outcome> {
        let options = self.connection.options();
        let topic = options.topic.render_with(entry, escape);
        publishable(&topic).map_err(|error| error::unroutable(&error))?;
        let properties = binding::properties(&Envelope::of(entry, &options.source));
        let limit = self.live.packet_bytes_max;
        if limit < usize::MAX {
            let payload_bytes = entry.payload.len();
            let payload_bytes_max = limit.saturating_sub(HEADERS_BYTES);
            if payload_bytes > payload_bytes_max {
                return Err(error::too_large(payload_bytes, payload_bytes_max));
            }
            // Without the payload, which need not be copied to be counted; with room for lengths and the packet's id.
            let bare =
                Publish::new(topic.clone(), options.publish_qos(), Vec::new(), Some(properties.clone()));
            let bytes = bare.size() + payload_bytes + 8;
            if bytes > limit {
                return Err(error::too_large(bytes, limit));
            }
        }
        Ok((topic, properties))
    }

    fn answered(&mut self, index: usize, answer: Result<PublishResult, PublishNoticeError>) {
        let reason = match answer {
            // Whether the server has taken it is asked once for all, in `taken`.
            Ok(PublishResult::Qos0Flushed) => return,
            Ok(PublishResult::Qos1(answer)) => answer.reason,
            Ok(PublishResult::Qos2PubRecRejected(answer)) => error::same(answer.reason),
            Ok(PublishResult::Qos2Completed(answer)) => {
                return self.settle(
                    index,
                    match answer.reason {
                        PubCompReason::Success => Outcome::Confirmed,
                        PubCompReason::PacketIdentifierNotFound => error::forgotten(),
                    },
                );
            }
            Err(PublishNoticeError::V5PubAck(reason)) => reason,
            Err(PublishNoticeError::V5PubRec(reason)) => error::same(reason),
            Err(PublishNoticeError::V5PubComp(_)) => return self.settle(index, error::forgotten()),
            // The connection is gone. What becomes of the entry is decided for all at once, in `lose`.
            Err(_) => return,
        };
        let topic = self.connection.options().topic.render_with(&self.batch[index], escape);
        self.settle(index, error::answered(reason, &topic));
    }

    /// Messages without acknowledgement were written. They count as delivered once the server has taken them, which its
    /// answer to a question behind them shows.
    async fn taken(&mut self) {
        let within = self.connection.options().confirm_timeout;
        if self.live.echo(within).await {
            self.settle_open(|_| Outcome::Confirmed);
        } else if !self.live.is_lost() {
            self.live.distrust();
            self.settle_open(|_| error::no_answer());
        }
    }

    /// The connection is gone. What was written may have arrived; but where nobody answers any more, nobody is there
    /// to be asked again, and the entries wait until there is one, without an attempt spent.
    async fn lose(&mut self) {
        self.live.distrust();
        match self.connection.live().await {
            Ok(_) => {
                let lost = error::lost(self.live.why());
                self.settle_open(|is_written| if is_written { lost.clone() } else { error::lost_before() });
            }
            Err(error) => self.settle_open(|_| error::down(&error)),
        }
    }

    fn settle_open(&mut self, outcome: impl Fn(bool) -> Outcome) {
        (0..self.batch.len()).for_each(|index| self.settle(index, outcome(index < self.written)));
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
            self.live.distrust();
        }
    }
}
