//! The questions that a member asks about its group.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::port::Position;
use pillarbox_core::{Error, ErrorKind, Result};
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::Notify;

use crate::binding::Fields;
use crate::connection::{Connection, Live};
use crate::error;
use crate::options::Options;

use super::reply::{self, Read};

/// Entries of one's own past that are looked at in one go.
const PAGE: usize = 100;
/// Room for the number of an entry within its millisecond: no server takes a million of them in one.
const NUMBER_BITS: u32 = 20;
/// What the stream of parked entries is called, behind the name of its stream.
const PARKED: &str = ":parked";

/// A stream, the group that reads it, and which member we are.
pub(super) struct Group {
    pub(super) connection: Connection,
    pub(super) stream: String,
    name: String,
    consumer: String,
    /// Entries that this process is handling. They are not handed out a second time in this process, however
    /// long that takes.
    held: Mutex<BTreeSet<String>>,
    /// Told when an entry was given back.
    pub(super) given_back: Notify,
}

/// An entry that was delivered to us.
pub(super) struct Delivered {
    pub(super) id: String,
    pub(super) fields: Fields,
    /// How often it was delivered, counting this time.
    pub(super) count: u32,
}

/// What waited too long for its answer.
pub(super) struct Overdue {
    /// Where to go on; `0-0` is the end.
    pub(super) next: String,
    pub(super) taken: Vec<Delivered>,
}

impl Group {
    pub(super) fn new(connection: Connection, stream: String, name: String) -> Self {
        let fresh = || format!("pillarbox-{:016x}", pillarbox_host::random_u64());
        let consumer = connection.options().consumer.clone().unwrap_or_else(fresh);
        Self { connection, stream, name, consumer, held: Mutex::default(), given_back: Notify::new() }
    }

    /// Where an entry stands, as far as its id is one that the server makes: milliseconds, and a number within them.
    pub(super) fn position(&self, id: &str) -> Option<Position> {
        let (millis, number) = id.split_once('-')?;
        let (millis, number): (i64, i64) = (millis.parse().ok()?, number.parse().ok()?);
        let fits = millis < 1 << (63 - NUMBER_BITS) && number < 1 << NUMBER_BITS;
        fits.then(|| Position { stream: self.stream.clone(), offset: (millis << NUMBER_BITS) | number })
    }

    pub(super) fn options(&self) -> &Options {
        self.connection.options()
    }

    /// Makes the group, and the stream, if the settings say so and they are not there.
    pub(super) async fn make(&self) -> Result<()> {
        if !self.options().create_group {
            return Ok(());
        }
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&self.stream).arg(&self.name).arg("0").arg("MKSTREAM");
        match self.ask(&command).await {
            Err(error) if error.code() == Some("busygroup") => Ok(()),
            made => made.map(drop),
        }
    }

    /// What we left unanswered under this name when we were here before.
    pub(super) async fn left(&self) -> Result<Vec<Delivered>> {
        let mut left = Vec::new();
        let mut start = "-".to_owned();
        loop {
            let mut command = redis::cmd("XPENDING");
            command.arg(&self.stream).arg(&self.name).arg(&start).arg("+").arg(PAGE).arg(&self.consumer);
            let pending = reply::pending(self.ask(&command).await?);
            let Some((last, _)) = pending.last() else { return Ok(left) };
            start = format!("({last}");
            let mut command = redis::cmd("XCLAIM");
            command.arg(&self.stream).arg(&self.name).arg(&self.consumer).arg(0);
            let free = pending.iter().filter(|(id, _)| !self.held().contains(id));
            let free: Vec<&(String, u32)> = free.collect();
            if free.is_empty() {
                continue;
            }
            for (id, _) in &free {
                command.arg(id);
            }
            for Read { id, fields } in reply::entries(self.ask(&command).await?) {
                let before = free.iter().find(|(free, _)| *free == id).map_or(0, |(_, count)| *count);
                left.push(Delivered { id, fields, count: before.saturating_add(1) });
            }
        }
    }

    /// The command that waits for entries that no member has seen.
    pub(super) fn fresh(&self, wait: Duration) -> Cmd {
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(&self.name).arg(&self.consumer);
        command.arg("COUNT").arg(self.options().prefetch).arg("BLOCK").arg(millis(wait));
        command.arg("STREAMS").arg(&self.stream).arg(">");
        command
    }

    /// Takes over what waited too long for its answer.
    pub(super) async fn overdue(&self, start: &str) -> Result<Overdue> {
        let mut command = redis::cmd("XAUTOCLAIM");
        command
            .arg(&self.stream)
            .arg(&self.name)
            .arg(&self.consumer)
            .arg(millis(self.options().reclaim_after));
        command.arg(start).arg("COUNT").arg(self.options().prefetch);
        let unreadable = || Error::new(ErrorKind::Corrupt, "an answer of Redis cannot be read");
        let (next, mut claimed) = reply::claimed(self.ask(&command).await?).ok_or_else(unreadable)?;
        claimed.retain(|read| !self.held().contains(&read.id));
        if claimed.is_empty() {
            return Ok(Overdue { next, taken: Vec::new() });
        }
        let mut counts = Pipeline::with_capacity(claimed.len());
        for Read { id, .. } in &claimed {
            counts.cmd("XPENDING").arg(&self.stream).arg(&self.name).arg(id).arg(id).arg(1);
        }
        let counts = reply::list(self.ask_all(&counts).await?).into_iter();
        let counts = counts.map(|answer| reply::pending(answer).first().map_or(2, |(_, count)| *count));
        let delivered = |(Read { id, fields }, count)| Delivered { id, fields, count };
        Ok(Overdue { next, taken: claimed.into_iter().zip(counts).map(delivered).collect() })
    }

    /// Handled: the group forgets it.
    pub(super) async fn acknowledge(&self, id: &str) -> Result<()> {
        let mut command = redis::cmd("XACK");
        command.arg(&self.stream).arg(&self.name).arg(id);
        self.ask(&command).await.map(drop)
    }

    /// Not handled: any member may take it over when the delay is over.
    pub(super) async fn give_back(&self, id: &str) -> Result<()> {
        let given_back = self.ask(&self.giving_back([id], self.options().nack_delay)).await;
        self.given_back.notify_one();
        given_back.map(drop)
    }

    /// The same for entries that nobody has seen, without a delay.
    pub(super) async fn give_back_all(&self, ids: Vec<String>) {
        if !ids.is_empty()
            && let Err(error) =
                self.ask(&self.giving_back(ids.iter().map(String::as_str), Duration::ZERO)).await
        {
            tracing::warn!(
                %error,
                "some entries could not be returned to the group; another consumer gets them after \
                 reclaim_after"
            );
        }
    }

    /// Ends the wait for new entries of this connection, and says whether that was allowed.
    pub(super) async fn unblock(&self, connection: i64) -> bool {
        let mut command = redis::cmd("CLIENT");
        command.arg("UNBLOCK").arg(connection);
        self.ask(&command).await.is_ok()
    }

    /// The same without a delay and without waiting for an answer, for a caller that cannot wait. Where there
    /// is no connection, the entries come again when they are overdue.
    pub(super) fn let_go<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let mut command = self.giving_back(ids, Duration::ZERO);
        command.set_no_response(true);
        if let Some(mut live) = self.connection.live_now() {
            let _ = live.commands.send_packed_command(&command).now_or_never();
        }
        self.given_back.notify_one();
    }

    /// Makes an entry look as if it had waited long enough, but for the delay. It is not counted as a delivery.
    fn giving_back<'a>(&self, ids: impl IntoIterator<Item = &'a str>, delay: Duration) -> Cmd {
        let mut command = redis::cmd("XCLAIM");
        command.arg(&self.stream).arg(&self.name).arg(&self.consumer).arg(0);
        for id in ids {
            command.arg(id);
        }
        let idle = self.options().reclaim_after.saturating_sub(delay);
        command.arg("IDLE").arg(millis(idle)).arg("JUSTID");
        command
    }

    /// Moves an entry to where nobody delivers it. Both steps happen, or none.
    pub(super) async fn park(&self, id: &str) -> Result<()> {
        let parked = format!("{}{PARKED}", self.stream);
        let mut look = Pipeline::new();
        look.cmd("XRANGE").arg(&self.stream).arg(id).arg(id);
        look.cmd("TYPE").arg(&parked);
        let mut seen = reply::list(self.ask_all(&look).await?).into_iter();
        let entry = reply::entries(seen.next().unwrap_or(Value::Nil)).pop();
        // Redis undoes nothing: a key of another kind would fail the one step and not the other.
        let kind = seen.next().and_then(reply::text).unwrap_or_default();
        if kind != "none" && kind != "stream" {
            return Err(Error::invalid(format!(
                "the key {parked:?} holds a {kind}, not a stream, so messages cannot be parked there. Choose \
                 another parked="
            )));
        }
        let mut moving = Pipeline::new();
        moving.atomic();
        if let Some(entry) = entry {
            moving.cmd("XADD").arg(&parked).arg("*");
            for (name, value) in &entry.fields {
                moving.arg(name).arg(value);
            }
            moving.arg("parked-id").arg(id).arg("parked-group").arg(&self.name);
        }
        moving.cmd("XACK").arg(&self.stream).arg(&self.name).arg(id);
        self.ask_all(&moving).await.map(drop)
    }

    pub(super) fn held(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, command: &Cmd) -> Result<Value> {
        let mut live = self.connection.live().await?;
        let answer =
            tokio::time::timeout(self.options().connect_timeout, command.query_async(&mut live.commands))
                .await;
        self.answer(&live, answer.ok())
    }

    async fn ask_all(&self, commands: &Pipeline) -> Result<Value> {
        let mut live = self.connection.live().await?;
        let answer =
            tokio::time::timeout(self.options().connect_timeout, commands.query_async(&mut live.commands))
                .await;
        self.answer(&live, answer.ok())
    }

    fn answer(&self, live: &Live, answer: Option<RedisResult<Value>>) -> Result<Value> {
        match answer {
            Some(answer) => answer.map_err(|cause| self.failed(&cause)),
            None => {
                live.distrust();
                Err(no_answer(self.options().connect_timeout))
            }
        }
    }

    /// What an answer of the server means for a consumer, with stream and group named.
    pub(super) fn failed(&self, cause: &redis::RedisError) -> Error {
        error::consuming(cause, &format!("stream {:?}, group {:?}", self.stream, self.name))
    }
}

pub(super) fn no_answer(within: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("no answer within {within:?}")).with_code("no_answer")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
