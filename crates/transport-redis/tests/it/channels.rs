//! `redis+pubsub:` publishes to channels, on both servers. A listener of the test's own hears what comes.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::delivery::{assert_outcome, confirm, deliver_one, entries, fresh};
use pillarbox_conformance::sink::context_of_line;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::ErrorKind;
use pillarbox_core::port::Sink;
use pillarbox_transport_redis::{RedisSink, RedisSource, RedisTranscript};
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Mutex, mpsc};

use crate::harness::{REDIS, variable};
use crate::suites::{Kind, Redis, Valkey};

/// What the test itself publishes to know that everything before it was heard.
const MARK: &str = "mark";

/// A channel with somebody who listens.
struct Channel<K> {
    name: String,
    sink: Arc<RedisSink>,
    commands: MultiplexedConnection,
    heard: Mutex<(Vec<String>, mpsc::UnboundedReceiver<PushInfo>)>,
    kind: PhantomData<K>,
}

/// The URL of a sink to a channel of this server.
fn to(server: &str, channel: &str) -> String {
    format!("{}?channel={channel}", server.replacen("://", "+pubsub://", 1))
}

impl<K: Kind> Channel<K> {
    /// All that was published until now.
    async fn lines(&self) -> Vec<String> {
        let mut publish = redis::cmd("PUBLISH");
        let publish = publish.arg(&self.name).arg(MARK);
        publish.query_async::<Value>(&mut self.commands.clone()).await.unwrap();
        let (lines, pushes) = &mut *self.heard.lock().await;
        loop {
            let push = pushes.recv().await.unwrap();
            if push.kind != PushKind::Message {
                continue;
            }
            let line: String = redis::from_redis_value(push.data[1].clone()).unwrap();
            if line == MARK {
                return lines.clone();
            }
            lines.push(line);
        }
    }
}

#[async_trait]
impl<K: Kind> SinkHarness for Channel<K> {
    fn name() -> &'static str {
        K::NAME
    }

    async fn start() -> Self {
        let (server, name) = (variable(K::VARIABLE), fresh("channel"));
        let sink = Arc::new(RedisSink::new(&to(&server, &name)).unwrap());
        let (tell, pushes) = mpsc::unbounded_channel();
        let client = redis::Client::open(format!("{server}?protocol=resp3")).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_push_sender(tell);
        let mut commands = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        commands.subscribe(&name).await.unwrap();
        Self { name, sink, commands, heard: Mutex::new((vec![], pushes)), kind: PhantomData }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.lines().await.iter().map(|line| Received::of_line(line)).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.lines().await.iter().map(|line| context_of_line(line)).collect())
    }

    /// The payload is part of a JSON object.
    fn keeps_blanks(&self) -> bool {
        false
    }
}

mod redis_channel {
    pillarbox_conformance::sink_conformance!(super::Channel<super::Redis>);
}

mod valkey_channel {
    pillarbox_conformance::sink_conformance!(super::Channel<super::Valkey>);
}

/// This is what the name says: nothing is kept.
#[tokio::test]
async fn an_event_that_nobody_listens_to_is_confirmed_and_gone() {
    let sink = RedisSink::new(&to(&variable(REDIS), &fresh("nobody"))).unwrap();
    assert!(!sink.capabilities().durable);
    confirm(&sink, &entries(1)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_down() {
    let sink = RedisSink::new(&to("redis://127.0.0.1:1", "orders")).unwrap();
    assert_outcome(&deliver_one(&sink, &entries(1)[0]).await, "down/unreachable");
}

#[test]
fn there_is_nothing_to_consume_or_to_read() {
    let url = "redis+pubsub://127.0.0.1?stream=orders&group=billing";
    let refused = [RedisSource::new(url).map(drop), RedisTranscript::new(url).map(drop)];
    for refused in refused.map(Result::unwrap_err) {
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("redis://…?stream="), "{refused}");
    }
    let error = RedisSink::new("redis+pubsub://127.0.0.1?stream=orders").map(drop).unwrap_err();
    assert!(error.to_string().contains("channel"), "{error}");
    let error = RedisSink::new("redis+pubsub://127.0.0.1").map(drop).unwrap_err();
    assert!(error.to_string().contains("channel= is missing"), "{error}");
}
