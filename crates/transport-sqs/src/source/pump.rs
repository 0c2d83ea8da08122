//! The task of a subscription: it asks for messages, extends those that are held, and sends the answers of receipts, ten
//! in one request. It goes on after the subscription is gone, until every message has its answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::operation::receive_message::ReceiveMessageOutput;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName,
};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::connection::{Live, within};
use crate::error::Trouble;

use super::Shared;
use super::held::{Holding, Number};

/// Most messages of one request: the limit of SQS.
const MESSAGES_MAX: usize = 10;
/// Most requests with answers at the same time. While they are under way, further answers gather.
const REQUESTS_MAX: usize = 4;

/// The answer to a message.
pub(super) enum Answer {
    /// It is deleted.
    Delete,
    /// It comes again after this long.
    Return(Duration),
}

/// What a subscription and its receipts want.
pub(super) enum Command {
    Answer {
        number: Number,
        answer: Answer,
        told: Option<Told>,
    },
    /// Nothing more is received. Told when what was received and not handed out is given back.
    Close(oneshot::Sender<()>),
}

type Told = oneshot::Sender<Result<()>>;

/// A message that is handed out, or why there are no more.
pub(super) type Arrived = Result<(Number, Message)>;

/// A handle, for how long the message is hidden from now on (`None`: it is deleted), and who waits for it.
struct Change {
    handle: String,
    hidden: Option<Duration>,
    told: Option<Told>,
}

/// What the server refused, by the place in the request.
type Done = (Vec<Change>, Result<Vec<BatchResultErrorEntry>, Trouble>);

pub(super) struct Pump {
    shared: Arc<Shared>,
    live: Live,
    commands: mpsc::UnboundedReceiver<Command>,
    out: mpsc::UnboundedSender<Arrived>,
    holding: Holding<Message>,
    deletes: VecDeque<Change>,
    hidings: VecDeque<Change>,
    requests: FuturesUnordered<BoxFuture<'static, Done>>,
    receiving: Option<BoxFuture<'static, Result<ReceiveMessageOutput, Trouble>>>,
    /// No more is asked for.
    is_closing: bool,
    closed: Vec<oneshot::Sender<()>>,
}

impl Pump {
    pub(super) fn new(
        shared: &Arc<Shared>,
        live: Live,
        commands: mpsc::UnboundedReceiver<Command>,
        out: mpsc::UnboundedSender<Arrived>,
    ) -> Self {
        let options = shared.connection.options();
        Self {
            shared: Arc::clone(shared),
            live,
            commands,
            out,
            holding: Holding::new(options.visibility, options.hold),
            deletes: VecDeque::new(),
            hidings: VecDeque::new(),
            requests: FuturesUnordered::new(),
            receiving: None,
            is_closing: false,
            closed: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut is_open = true;
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.take(command);
            }
            self.ask();
            if self.is_idle() {
                for closed in self.closed.drain(..) {
                    let _ = closed.send(());
                }
                if !is_open || self.holding.len() == 0 {
                    return;
                }
            }
            let due = self.holding.due();
            tokio::select! {
                biased;
                command = self.commands.recv(), if is_open => match command {
                    Some(command) => self.take(command),
                    None => {
                        is_open = false;
                        self.close();
                    }
                },
                Some((changes, answer)) = self.requests.next(), if !self.requests.is_empty() => {
                    self.answered(changes, answer);
                }
                Some(received) = OptionFuture::from(self.receiving.as_mut()), if self.receiving.is_some() => {
                    self.receiving = None;
                    self.received(received);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    let handles = self.holding.extend(Instant::now());
                    let visibility = self.shared.connection.options().visibility;
                    self.hide(handles, visibility, None);
                }
            }
        }
    }

    /// Whether nothing is under way, and nothing more is wanted.
    fn is_idle(&self) -> bool {
        let has_answers = !self.deletes.is_empty() || !self.hidings.is_empty() || !self.requests.is_empty();
        self.is_closing && !has_answers && self.receiving.is_none()
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Answer { number, answer: Answer::Delete, told } => {
                let Some((handle, next)) = self.holding.acknowledged(number) else { return };
                self.deletes.push_back(Change { handle, hidden: None, told });
                if let Some((number, message)) = next {
                    self.hand_out(number, message);
                }
            }
            Command::Answer { number, answer: Answer::Return(delay), told } => {
                let handles = self.holding.returned(number);
                self.hide(handles, delay, told);
            }
            Command::Close(closed) => {
                self.closed.push(closed);
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.is_closing = true;
        let behind = self.holding.behind();
        self.hide(behind, Duration::ZERO, None);
    }

    /// Hides messages for so long. Who waits is told of the last one.
    fn hide(&mut self, handles: Vec<String>, hidden: Duration, mut told: Option<Told>) {
        let last = handles.len().saturating_sub(1);
        for (place, handle) in handles.into_iter().enumerate() {
            let told = if place == last { told.take() } else { None };
            self.hidings.push_back(Change { handle, hidden: Some(hidden), told });
        }
    }

    fn hand_out(&mut self, number: Number, message: Message) {
        if self.is_closing || self.out.send(Ok((number, message))).is_err() {
            let handles = self.holding.returned(number);
            self.hide(handles, Duration::ZERO, None);
        }
    }

    fn received(&mut self, received: Result<ReceiveMessageOutput, Trouble>) {
        let shared = Arc::clone(&self.shared);
        let options = shared.connection.options();
        match received {
            Ok(received) => {
                let now = Instant::now();
                for message in received.messages.unwrap_or_default() {
                    let Some(handle) = message.receipt_handle.clone() else { continue };
                    let group = group(&message).filter(|_| options.is_fifo());
                    if let Some((number, message)) = self.holding.arrived(handle, group, message, now) {
                        self.hand_out(number, message);
                    }
                }
                if self.is_closing {
                    self.close();
                }
            }
            Err(trouble) => {
                let error = trouble.into_error(options, &self.shared.queue);
                let kind =
                    if error.kind() == ErrorKind::Timeout { ErrorKind::Unavailable } else { error.kind() };
                let code = error.code().unwrap_or_default().to_owned();
                self.shared.connection.distrust(&self.shared.queue);
                let _ = self.out.send(Err(Error::new(kind, error.message().to_owned()).with_code(code)));
                self.close();
            }
        }
    }

    /// Begins the requests that can be.
    fn ask(&mut self) {
        let options = self.shared.connection.options();
        while self.requests.len() < REQUESTS_MAX && !(self.deletes.is_empty() && self.hidings.is_empty()) {
            let waiting = if self.deletes.is_empty() { &mut self.hidings } else { &mut self.deletes };
            let changes: Vec<_> = waiting.drain(..waiting.len().min(MESSAGES_MAX)).collect();
            let request = send(self.live.clone(), options.connect_timeout, changes);
            self.requests.push(Box::pin(request));
        }
        let room = options.prefetch.saturating_sub(self.holding.len());
        if !self.is_closing && self.receiving.is_none() && room > 0 {
            let seconds = |duration: Duration| i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
            let asking = self.live.client.receive_message().queue_url(&self.live.url);
            let asking = asking
                .max_number_of_messages(i32::try_from(room.min(MESSAGES_MAX)).unwrap_or(1))
                .wait_time_seconds(seconds(options.wait))
                .visibility_timeout(seconds(options.visibility))
                .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
                .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
                .message_attribute_names("All")
                .send();
            self.receiving = Some(Box::pin(within(options.wait + options.connect_timeout, asking)));
        }
    }

    fn answered(&mut self, changes: Vec<Change>, answer: Result<Vec<BatchResultErrorEntry>, Trouble>) {
        let options = self.shared.connection.options();
        let refused = |place: usize| -> Option<Error> {
            match &answer {
                Err(trouble) => Some(trouble.clone().into_error(options, &self.shared.queue)),
                Ok(failed) => {
                    let one = failed.iter().find(|one| one.id == place.to_string())?;
                    let text = format!("{}: {}", one.code, one.message.as_deref().unwrap_or_default());
                    Some(Error::new(ErrorKind::Unavailable, text).with_code(one.code.clone()))
                }
            }
        };
        for (place, change) in changes.into_iter().enumerate() {
            let refused = refused(place);
            match (change.told, refused) {
                (Some(told), refused) => drop(told.send(refused.map_or(Ok(()), Err))),
                (None, Some(error)) => tracing::warn!(
                    queue = self.shared.queue,
                    "a message could not be extended or given back, and comes again when its visibility timeout ends: {error}"
                ),
                (None, None) => {}
            }
        }
    }
}

/// Sends changes of one kind.
async fn send(live: Live, limit: Duration, changes: Vec<Change>) -> Done {
    let numbered = || changes.iter().enumerate().map(|(place, change)| (place.to_string(), change));
    let answer = if changes.iter().all(|change| change.hidden.is_none()) {
        let entries = numbered().map(|(place, change)| {
            DeleteMessageBatchRequestEntry::builder().id(place).receipt_handle(&change.handle).build()
        });
        // All that is required is set, so that none is left out.
        let entries: Vec<_> = entries.filter_map(Result::ok).collect();
        let asking =
            live.client.delete_message_batch().queue_url(&live.url).set_entries(Some(entries)).send();
        within(limit, asking).await.map(|answer| answer.failed)
    } else {
        let entries = numbered().map(|(place, change)| {
            let hidden = change.hidden.unwrap_or_default().as_secs();
            let entry =
                ChangeMessageVisibilityBatchRequestEntry::builder().id(place).receipt_handle(&change.handle);
            entry.visibility_timeout(i32::try_from(hidden).unwrap_or(i32::MAX)).build()
        });
        let entries: Vec<_> = entries.filter_map(Result::ok).collect();
        let asking = live.client.change_message_visibility_batch().queue_url(&live.url);
        within(limit, asking.set_entries(Some(entries)).send()).await.map(|answer| answer.failed)
    };
    (changes, answer)
}

/// The group of a message of a FIFO queue.
pub(super) fn group(message: &Message) -> Option<String> {
    message.attributes.as_ref()?.get(&MessageSystemAttributeName::MessageGroupId).cloned()
}
