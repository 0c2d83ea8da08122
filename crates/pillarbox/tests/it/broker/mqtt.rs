//! MQTT: topics, and a session that consumes them.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox::Source;
use pillarbox::mqtt::MqttSource;
use pillarbox_conformance::SourceHarness;
use pillarbox_testkit::Published;
use rumqttc::{AsyncClient, MqttOptions, PublishOptions, PublishProperties};

use super::Path;
use crate::{unique, variable};

pub(crate) struct Mqtt {
    path: Path,
    url: String,
    name: String,
    client: AsyncClient,
}

#[async_trait]
impl SourceHarness for Mqtt {
    fn name() -> &'static str {
        "mosquitto"
    }

    async fn start() -> Self {
        let server = variable("PILLARBOX_TEST_MQTT");
        let name = unique();
        let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
        let options = MqttOptions::new(format!("{name}-publisher"), ("127.0.0.1", port));
        let (client, mut events) = AsyncClient::builder(options).unbounded().build();
        #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
        tokio::spawn(async move { while events.poll().await.is_ok() {} });
        let (path, through) = Path::to(&server);
        let url = format!("{through}/{name}/%23?group=billing&client_id={name}");
        // The session is there before anything is published.
        let harness = Self { path, url, name, client };
        harness.source().subscribe().await.unwrap().close().await;
        harness.path.settle().await;
        harness
    }

    fn source(&self) -> Arc<dyn Source> {
        self.path.lead(Arc::new(MqttSource::new(&self.url).unwrap()))
    }

    async fn publish(&self, message: Published) {
        self.path.settle().await;
        let mut user_properties: Vec<_> = message.attributes.into_iter().collect();
        user_properties.extend(message.headers);
        let properties = PublishProperties { user_properties, ..PublishProperties::default() };
        let options = PublishOptions::at_least_once().properties(properties);
        let topic = format!("{}/events", self.name);
        let notice = self.client.publish_tracked(topic, message.body, options).await.unwrap();
        notice.wait_async().await.unwrap();
    }

    async fn cut(&self) -> bool {
        self.path.cut()
    }
}
