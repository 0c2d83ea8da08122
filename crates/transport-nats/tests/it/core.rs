//! `nats+core:` publishes without a stream, on both servers. A listener of the test's own hears what comes.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use async_nats::{Client, Message, Subscriber};
use async_trait::async_trait;
use futures_util::StreamExt;
use pillarbox_conformance::delivery::{assert_outcome, confirm, deliver, deliver_one, entries, fresh};
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::ErrorKind;
use pillarbox_core::port::Sink;
use pillarbox_transport_nats::{NatsSink, NatsSource, NatsTranscript};
use tokio::sync::Mutex;

use crate::harness::{DEBIAN, Server, variable};
use crate::suites::{Debian, Latest, Version, percent_decoded};

/// A subject with somebody who listens.
struct Core<V> {
    name: String,
    sink: Arc<NatsSink>,
    client: Client,
    heard: Mutex<(Vec<Message>, Subscriber)>,
    version: PhantomData<V>,
}

/// The URL of a sink to a subject of this server.
fn to(server: &str, subject: &str) -> String {
    format!("{}/{subject}", server.replacen("://", "+core://", 1))
}

impl<V: Version> Core<V> {
    /// All that was published until now.
    async fn messages(&self) -> Vec<Message> {
        let mark = format!("{}.mark", self.name);
        self.client.publish(mark.clone(), "".into()).await.unwrap();
        let (messages, heard) = &mut *self.heard.lock().await;
        loop {
            let message = heard.next().await.unwrap();
            if message.subject.as_str() == mark {
                return messages.clone();
            }
            messages.push(message);
        }
    }
}

#[async_trait]
impl<V: Version> SinkHarness for Core<V> {
    fn name() -> &'static str {
        V::NAME
    }

    async fn start() -> Self {
        let (server, name) = (variable(V::VARIABLE), fresh("core"));
        let sink = Arc::new(NatsSink::new(&to(&server, &format!("{name}.events.{{type}}"))).unwrap());
        let client = async_nats::connect(&server).await.unwrap();
        let heard = client.subscribe(format!("{name}.>")).await.unwrap();
        client.flush().await.unwrap();
        // The server has taken the subscription once it has passed a message on.
        client.publish(format!("{name}.mark"), "".into()).await.unwrap();
        let mut heard = heard;
        heard.next().await.unwrap();
        Self { name, sink, client, heard: Mutex::new((vec![], heard)), version: PhantomData }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        let received = |message: Message| {
            let header = |name: &str| message.headers.as_ref()?.get(name).map(ToString::to_string);
            Received {
                event_id: header("ce-id").unwrap().parse().unwrap(),
                event_type: header("ce-type").unwrap(),
                key: header("ce-subject"),
                payload: message.payload.to_vec(),
            }
        };
        self.messages().await.into_iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        let context = |message: Message| {
            let headers = message.headers.unwrap_or_default();
            let own = headers.iter().filter(|(name, _)| !name.to_string().starts_with("Nats-"));
            let named = own.map(|(name, values)| match name.to_string().strip_prefix("ce-") {
                Some(attribute) => (attribute.to_owned(), percent_decoded(values[0].as_str())),
                None => (name.to_string(), values[0].to_string()),
            });
            named.collect()
        };
        Some(self.messages().await.into_iter().map(context).collect())
    }
}

mod debian_core {
    pillarbox_conformance::sink_conformance!(super::Core<super::Debian>);
}

mod latest_core {
    pillarbox_conformance::sink_conformance!(super::Core<super::Latest>);
}

/// This is what the name says: nothing is kept.
#[tokio::test]
async fn an_event_that_nobody_listens_to_is_confirmed_and_gone() {
    let sink = NatsSink::new(&to(&variable(DEBIAN), &fresh("nobody"))).unwrap();
    assert!(!sink.capabilities().durable);
    assert!(!sink.capabilities().deduplicates);
    confirm(&sink, &entries(1)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_down() {
    let sink = NatsSink::new(&to("nats://127.0.0.1:1", "orders")).unwrap();
    assert_outcome(&deliver_one(&sink, &entries(1)[0]).await, "down/unreachable");
}

#[tokio::test]
async fn a_subject_that_the_user_may_not_publish_to_is_down_and_named() {
    let server = Server::start(
        "authorization { users: [ { user: app, password: secret, permissions: { publish: { deny: \"orders.>\" } } } ] }",
    )
    .await;
    let url = format!("nats+core://app:secret@127.0.0.1:{}/orders.{{type}}", server.port());
    for outcome in deliver(&NatsSink::new(&url).unwrap(), &entries(3)).await {
        assert_outcome(&outcome, "down/denied");
    }
}

#[test]
fn there_is_nothing_to_consume_or_to_read() {
    let url = "nats+core://127.0.0.1/orders?durable=billing";
    let refused = [NatsSource::new(url).map(drop), NatsTranscript::new(url).map(drop)];
    for refused in refused.map(Result::unwrap_err) {
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("JetStream"), "{refused}");
    }
    let error = NatsSink::new("nats+core://127.0.0.1/orders?stream=ORDERS").map(drop).unwrap_err();
    assert!(error.to_string().contains("stream"), "{error}");
}
