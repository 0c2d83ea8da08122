//! Redis: a stream, and a group that reads it.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::Source;
use pillarbox::redis::RedisSource;
use pillarbox_conformance::SourceHarness;
use pillarbox_testkit::Published;
use redis::aio::MultiplexedConnection;

use super::Path;
use crate::{unique, variable};

pub(crate) struct Redis {
    path: Path,
    url: String,
    stream: String,
    commands: MultiplexedConnection,
}

#[async_trait]
impl SourceHarness for Redis {
    fn name() -> &'static str {
        "redis"
    }

    async fn start() -> Self {
        let server = variable("PILLARBOX_TEST_REDIS");
        let client = redis::Client::open(server.as_str()).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let commands = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let stream = unique();
        let (path, through) = Path::to(&server);
        let url = format!("{through}?stream={stream}&group=billing&reclaim_after=5s");
        Self { path, url, stream, commands }
    }

    fn source(&self) -> Arc<dyn Source> {
        self.path.lead(Arc::new(RedisSource::new(&self.url).unwrap()))
    }

    async fn publish(&self, message: Published) {
        self.path.settle().await;
        let mut command = redis::cmd("XADD");
        command.arg(&self.stream).arg("*");
        for (name, value) in message.attributes {
            command.arg(format!("ce-{name}")).arg(value);
        }
        for (name, value) in message.headers {
            command.arg(format!("h-{name}")).arg(value);
        }
        command.arg("data").arg(message.body);
        command.query_async::<String>(&mut self.commands.clone()).await.unwrap();
    }

    async fn cut(&self) -> bool {
        self.path.cut()
    }
}
