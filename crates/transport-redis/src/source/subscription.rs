//! Waiting for entries: new ones, and those that another member left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pillarbox_core::Result;
use pillarbox_core::port::{Message, Subscription};
use tokio::time::{Instant, sleep_until};

use crate::binding;
use crate::connection::Live;

use super::group::{Delivered, Group, Overdue, no_answer};
use super::receipt::RedisReceipt;
use super::reply::{self, Read};

/// How long the server may keep a question for new entries open.
const WAIT: Duration = Duration::from_secs(5);
/// The longest and the shortest time between two looks for what others left.
const LOOK_MAX: Duration = Duration::from_secs(5);
const LOOK_MIN: Duration = Duration::from_millis(50);
/// The first entry, for a look at all that is pending, and what the server calls the end of such a look.
const START: &str = "0-0";

/// A question to the server, and its answer.
type Question<T> = BoxFuture<'static, Result<T>>;

/// A stream of messages.
///
/// **Invariant:** a question that was sent is in `reading` or `looking` until its answer is in `ready`. So whoever
/// drops a wait for the next message drops no answer.
pub(super) struct RedisSubscription {
    group: Arc<Group>,
    /// A connection of its own: waiting for entries keeps it busy.
    reader: Live,
    /// What the server calls that connection, if it tells.
    reader_id: Option<i64>,
    ready: VecDeque<Delivered>,
    reading: Option<Question<Vec<Read>>>,
    looking: Option<Question<Overdue>>,
    /// When to look for what others left, and from which entry on.
    look_at: Instant,
    look_from: String,
}

impl RedisSubscription {
    pub(super) async fn open(group: &Arc<Group>, left: Vec<Delivered>) -> Result<Self> {
        let mut reader = group.connection.open().await?;
        let bound = group.options().connect_timeout;
        let mut who = redis::cmd("CLIENT");
        let asked = tokio::time::timeout(bound, who.arg("ID").query_async(&mut reader.commands)).await;
        let reader_id = asked.ok().and_then(Result::ok);
        Ok(Self {
            group: Arc::clone(group),
            reader,
            reader_id,
            ready: left.into(),
            reading: None,
            looking: None,
            look_at: Instant::now(),
            look_from: START.to_owned(),
        })
    }

    fn read(&self) -> Question<Vec<Read>> {
        let (group, mut reader) = (Arc::clone(&self.group), self.reader.commands.clone());
        Box::pin(async move {
            let bound = WAIT + group.options().connect_timeout;
            match tokio::time::timeout(bound, group.fresh(WAIT).query_async(&mut reader)).await {
                Ok(Ok(answer)) => Ok(reply::streams(answer)),
                Ok(Err(cause)) => Err(group.failed(&cause)),
                Err(_) => Err(no_answer(bound)),
            }
        })
    }

    fn arrived(&mut self, new: Vec<Read>) {
        let new = new.into_iter().map(|Read { id, fields }| Delivered { id, fields, count: 1 });
        self.ready.extend(new);
    }

    fn look(&self) -> Question<Overdue> {
        let (group, start) = (Arc::clone(&self.group), self.look_from.clone());
        Box::pin(async move { group.overdue(&start).await })
    }

    fn looked(&mut self, Overdue { next, taken }: Overdue) {
        self.ready.extend(taken);
        let every = (self.group.options().reclaim_after / 4).clamp(LOOK_MIN, LOOK_MAX);
        // Given back meanwhile, it may be due earlier than that.
        self.look_at = Instant::now() + if next == START { every } else { Duration::ZERO };
        self.look_from = next;
    }

    fn message(&self, delivered: Delivered) -> Message {
        let Delivered { id, fields, count } = delivered;
        let (attributes, headers, body) = binding::read(fields);
        let position = self.group.position(&id);
        let receipt = Box::new(RedisReceipt::new(&self.group, id));
        Message { attributes, headers, body, delivery_count: Some(count), position, receipt }
    }
}

#[async_trait]
impl Subscription for RedisSubscription {
    async fn next(&mut self) -> Result<Option<Message>> {
        loop {
            if let Some(delivered) = self.ready.pop_front() {
                return Ok(Some(self.message(delivered)));
            }
            if self.reading.is_none() {
                self.reading = Some(self.read());
            }
            if self.looking.is_none() && self.look_at <= Instant::now() {
                self.looking = Some(self.look());
            }
            tokio::select! {
                biased;
                looked = pending(&mut self.looking) => {
                    self.looking = None;
                    self.looked(looked?);
                }
                read = pending(&mut self.reading) => {
                    self.reading = None;
                    self.arrived(read?);
                }
                () = self.group.given_back.notified() => {
                    // A little later than it is due, because the server counts in milliseconds.
                    let due = Instant::now() + self.group.options().nack_delay + Duration::from_millis(2);
                    self.look_at = self.look_at.min(due);
                    START.clone_into(&mut self.look_from);
                }
                () = sleep_until(self.look_at), if self.looking.is_none() => {}
            }
        }
    }

    async fn close(&mut self) {
        let bound = self.group.options().connect_timeout;
        // The server waits for entries on our behalf, and must not find any now.
        if let (Some(reading), Some(reader)) = (self.reading.take(), self.reader_id)
            && self.group.unblock(reader).await
        {
            let read = tokio::time::timeout(bound, reading).await;
            self.arrived(read.ok().and_then(Result::ok).unwrap_or_default());
        }
        if let Some(looking) = self.looking.take() {
            let looked = tokio::time::timeout(bound, looking).await;
            self.ready.extend(looked.into_iter().flatten().flat_map(|overdue| overdue.taken));
        }
        self.group.give_back_all(self.ready.drain(..).map(|delivered| delivered.id).collect()).await;
    }
}

/// Waits for the answer to a question, if there is one.
async fn pending<T>(question: &mut Option<Question<T>>) -> Result<T> {
    match question {
        Some(question) => question.await,
        None => std::future::pending().await,
    }
}

impl Drop for RedisSubscription {
    /// Gives back what arrived and nobody has seen, as far as that can be done without waiting.
    fn drop(&mut self) {
        // Answers may have come since the last wait for them. Outside of a runtime they cannot be looked at.
        if tokio::runtime::Handle::try_current().is_ok() {
            let read = self.reading.as_mut().and_then(|reading| reading.now_or_never());
            self.arrived(read.and_then(Result::ok).unwrap_or_default());
            let looked = self.looking.as_mut().and_then(|looking| looking.now_or_never());
            self.ready.extend(looked.into_iter().flatten().flat_map(|overdue| overdue.taken));
        }
        if !self.ready.is_empty() {
            self.group.let_go(self.ready.iter().map(|delivered| delivered.id.as_str()));
        }
    }
}
