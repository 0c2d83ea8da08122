//! One batch on its way: what was written, what was confirmed, and what is left when the connection goes.

mod following;

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::{HeaderMap, Subject};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::Report;
use pillarbox_core::{Entry, Envelope, Outcome};
use tokio::sync::{Notify, mpsc};

use crate::binding;
use crate::connection::{Connection, Denials, Live};
use crate::error;
use crate::options::{self, Medium};

use super::runs::{Divided, divide};

/// The right to write: the delivery that has it writes a whole batch.
type Turn<'a> = tokio::sync::MutexGuard<'a, ()>;
/// Tells which entries were written, with the confirmations to wait for.
type Written = mpsc::UnboundedSender<(usize, Subject, PublishAckFuture)>;

/// A batch that is being delivered. Dropped before its end, it leaves a connection behind that nobody trusts: some
/// confirmation did not come in time.
pub(super) struct Delivery<'a> {
    connection: &'a Connection,
    live: Live,
    batch: &'a [Entry],
    report: &'a dyn Report,
    divided: Divided,
    progress: Mutex<Progress>,
    /// Told when every entry has its outcome.
    done: Notify,
}

struct Progress {
    /// The entries without an outcome, by index; `None` once there is one.
    open: Vec<Option<Open>>,
    left: usize,
    denied: BTreeSet<String>,
}

#[derive(Clone)]
enum Open {
    /// Nothing of it was written.
    Waiting,
    /// Written to this subject; the server's word is missing.
    Written(Subject),
    /// Written as one of its key. What it waits for is known where its key is followed.
    Following,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        live: Live,
        batch: &'a [Entry],
        report: &'a dyn Report,
    ) -> Self {
        let open = vec![Some(Open::Waiting); batch.len()];
        let progress = Mutex::new(Progress { open, left: batch.len(), denied: BTreeSet::new() });
        let (divided, done) = (divide(batch), Notify::new());
        Self { connection, live, batch, report, divided, progress, done }
    }

    pub(super) async fn run(self, payload_bytes_max: usize, turn: Turn<'_>) {
        {
            let (written, confirms) = mpsc::unbounded_channel();
            // Before anything is written: a refusal may come before anybody waits for it.
            let denials = self.live.denials();
            let deliver = async {
                match self.connection.options().medium {
                    Medium::Stream => {
                        let runs = self.divided.runs.iter();
                        let runs = join_all(runs.map(|run| self.follow(run, payload_bytes_max)));
                        let write = self.write(payload_bytes_max, turn, written);
                        tokio::join!(write, self.confirm(confirms), runs);
                    }
                    Medium::Core => self.pass_on(payload_bytes_max, turn).await,
                }
            };
            tokio::select! {
                biased;
                () = deliver => {}
                () = self.listen(denials) => {}
                // What was refused has no confirmation that could be waited for.
                () = self.done.notified() => {}
                () = self.live.lost() => {}
            }
        }
        if self.progress().left > 0 {
            self.lose().await;
        }
    }

    /// Writes the entries that go by themselves, in their order and before those of later deliveries.
    async fn write(&self, payload_bytes_max: usize, _turn: Turn<'_>, written: Written) {
        for index in self.divided.single.iter().copied() {
            let entry = &self.batch[index];
            let (subject, headers) = match self.address(entry, payload_bytes_max) {
                Ok(addressed) => addressed,
                Err(outcome) => {
                    self.settle(index, outcome);
                    continue;
                }
            };
            let payload = entry.payload.clone().into();
            let publish = self.live.context.publish_with_headers(subject.clone(), headers, payload);
            match publish.await {
                Ok(confirm) => {
                    // Done before the next await, so that a denial cannot come in between.
                    self.mark(index, Open::Written(subject.clone()));
                    // The receiver lives as long as we do.
                    let _ = written.send((index, subject, confirm));
                }
                Err(error) => self.settle(index, error::unsent(&error)),
            }
        }
    }

    /// Publishes the entries in their order to the subscribers of this moment. They count as delivered once the server has taken them all
    /// from the connection.
    async fn pass_on(&self, payload_bytes_max: usize, _turn: Turn<'_>) {
        let client = self.live.client();
        for (index, entry) in self.batch.iter().enumerate() {
            match self.address(entry, payload_bytes_max) {
                Err(outcome) => self.settle(index, outcome),
                Ok((subject, headers)) => {
                    let payload = entry.payload.clone().into();
                    match client.publish_with_headers(subject.clone(), headers, payload).await {
                        Ok(()) => self.mark(index, Open::Written(subject)),
                        Err(error) => self.settle(index, error::not_passed_on(&error)),
                    }
                }
            }
        }
        // The server answers in order. What it refuses, it says before the first echo; the second gives us the time to
        // hear it.
        for _ in 0..2 {
            if tokio::time::timeout(self.connection.options().confirm_timeout, self.live.echo()).await
                != Ok(true)
            {
                return self.live.distrust();
            }
        }
        let open = self.progress().open.clone();
        for (index, open) in open.into_iter().enumerate() {
            if matches!(open, Some(Open::Written(_))) {
                self.settle(index, Outcome::Confirmed);
            }
        }
    }

    /// The subject and the headers of an entry, or why it has none.
    fn address(&self, entry: &Entry, payload_bytes_max: usize) -> Result<(Subject, HeaderMap), Outcome> {
        let settings = self.connection.options();
        let subject = settings.subject.render(entry);
        options::publishable(&subject).map_err(|error| error::unroutable(&error))?;
        if entry.payload.len() > payload_bytes_max {
            let (size, most) = (entry.payload.len(), payload_bytes_max);
            let text = format!("the payload has {size} bytes; at most {most} are accepted");
            return Err(error::too_large(&text));
        }
        if self.progress().denied.contains(&*subject) {
            return Err(error::denied(&subject));
        }
        let headers = binding::headers(&Envelope::of(entry, &settings.source), settings.stream.as_deref());
        Ok((Subject::from(subject.into_owned()), headers))
    }

    /// Reports the confirmations as they come, while more is being written.
    async fn confirm(&self, mut written: mpsc::UnboundedReceiver<(usize, Subject, PublishAckFuture)>) {
        let mut awaited = FuturesUnordered::new();
        let mut writing = true;
        while writing || !awaited.is_empty() {
            tokio::select! {
                Some((index, subject, confirmed)) = awaited.next(), if !awaited.is_empty() => {
                    self.confirmed(index, &subject, confirmed);
                }
                next = written.recv(), if writing => match next {
                    Some((index, subject, confirm)) => {
                        awaited.push(async move { (index, subject, confirm.into_future().await) });
                    }
                    None => writing = false,
                },
            }
        }
    }

    /// Takes the confirmation of one entry, and returns it if the entry is stored.
    fn confirmed(
        &self,
        index: usize,
        subject: &Subject,
        confirmed: Result<PublishAck, PublishError>,
    ) -> Option<PublishAck> {
        let error = match confirmed {
            // A repetition that the server dropped is as good as stored: it was stored before.
            Ok(stored_or_repeated) => {
                self.settle(index, Outcome::Confirmed);
                return Some(stored_or_repeated);
            }
            Err(error) => error,
        };
        match error.kind() {
            // Whether that means unknown or down is decided for all entries at once, in `lose`.
            PublishErrorKind::BrokenPipe => return None,
            PublishErrorKind::TimedOut => self.live.distrust(),
            _ => {}
        }
        self.settle(index, error::unconfirmed(&error, subject));
        None
    }

    /// Hears which subjects the server refuses. It answers no publish that it refuses, so without this the entries
    /// would wait for their deadline. Ends when every entry has its outcome.
    async fn listen(&self, mut denials: Denials) {
        while self.progress().left > 0 {
            let denied = denials.next().await;
            let refused: Vec<usize> = {
                let mut progress = self.progress();
                progress.denied.insert(denied.clone());
                let open = progress.open.iter().enumerate();
                let hit = |open: &Option<Open>| matches!(open, Some(Open::Written(subject)) if subject.as_str() == denied);
                open.filter(|(_, open)| hit(open)).map(|(index, _)| index).collect()
            };
            refused.into_iter().for_each(|index| self.settle(index, error::denied(&denied)));
        }
    }

    /// The connection is gone. What was written may have arrived; but where nobody answers any more, nobody is there
    /// to be asked again, and the entries wait until there is one, without an attempt spent.
    async fn lose(&self) {
        self.live.distrust();
        let reopened = self.connection.live().await;
        for run in &self.divided.runs {
            let is_open = |index: &usize| self.progress().open[*index].is_some();
            if let Some(first) = run.iter().position(is_open) {
                self.hold_back(&run[first + 1..]);
            }
        }
        let open = self.progress().open.clone();
        for (index, open) in open.into_iter().enumerate() {
            let outcome = match (open, &reopened) {
                (None, _) => continue,
                (Some(_), Err(error)) => error::down(error),
                (Some(Open::Waiting), Ok(_)) => error::lost_before(),
                (Some(Open::Written(_) | Open::Following), Ok(_)) => error::lost(),
            };
            self.settle(index, outcome);
        }
    }

    fn settle(&self, index: usize, outcome: Outcome) {
        let mut progress = self.progress();
        if progress.open[index].take().is_some() {
            progress.left -= 1;
            self.report.outcome(index, outcome);
            if progress.left == 0 {
                self.done.notify_one();
            }
        }
    }

    /// Notes that an entry is written, unless it has its outcome.
    fn mark(&self, index: usize, written: Open) {
        if let Some(open) = &mut self.progress().open[index] {
            *open = written;
        }
    }

    /// Nothing of these is stored. They are written again.
    fn reopen(&self, indexes: &[usize]) {
        indexes.iter().for_each(|index| self.mark(*index, Open::Waiting));
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.progress().left > 0 {
            self.live.distrust();
        }
    }
}
