//! The suite for sinks, on both servers.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::Sink;
use pillarbox_testkit::{Received, SinkHarness};
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, LATEST, Place};

struct Here {
    place: Place,
    sink: Arc<NatsSink>,
}

impl Here {
    async fn start(variable: &str) -> Self {
        let place = Place::new(variable).await;
        let sink = Arc::new(NatsSink::new(&place.to()).unwrap());
        Self { place, sink }
    }

    async fn received(&self) -> Vec<Received> {
        let stored = self.place.stored().await.into_iter();
        let received = stored.map(|message| {
            let header = |name: &str| message.headers.get(name).map(ToString::to_string);
            Received {
                event_id: header("Nats-Msg-Id").unwrap().parse().unwrap(),
                event_type: header("ce-type").unwrap(),
                key: header("ce-subject"),
                payload: message.payload.to_vec(),
            }
        });
        received.collect()
    }
}

struct Debian(Here);

#[async_trait]
impl SinkHarness for Debian {
    const NAME: &'static str = "nats";

    async fn start() -> Self {
        Self(Here::start(DEBIAN).await)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }
}

struct Latest(Here);

#[async_trait]
impl SinkHarness for Latest {
    const NAME: &'static str = "nats-latest";

    async fn start() -> Self {
        Self(Here::start(LATEST).await)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }
}

mod debian {
    pillarbox_testkit::sink_conformance!(super::Debian);
}

mod latest {
    pillarbox_testkit::sink_conformance!(super::Latest);
}
