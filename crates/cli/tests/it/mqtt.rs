//! A client of an MQTT server that hears everything under one topic, and keeps it. The server itself keeps no record.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Packet, PublishOptions, QoS};

use crate::home::eventually;
use crate::place::{runtime, wait};

/// What was heard: the topic, the event's id if it has one, and the body.
type Heard = (String, Option<String>, Vec<u8>);

/// Hears what is published. Its session stays at the server, so it misses nothing while the server is away.
pub(crate) struct Recorder {
    client: AsyncClient,
    name: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Recorder {
    /// Subscribes to everything under this topic of the server, and returns when the server has taken that.
    pub(crate) fn start(server: &str, name: &str) -> Self {
        let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
        let mut options = MqttOptions::new(format!("{name}-recorder"), ("127.0.0.1", port));
        options.set_clean_start(false).set_session_expiry_interval(Some(600));
        let (client, events) = AsyncClient::builder(options).unbounded().build();
        let heard = Arc::default();
        let task = runtime().spawn(record(events, Arc::clone(&heard)));
        let subscribed = wait(client.subscribe_tracked(format!("{name}/#"), QoS::AtLeastOnce)).unwrap();
        wait(subscribed.wait_async()).unwrap();
        Self { client, name: name.to_owned(), heard, task }
    }

    /// The ids of the events that were published until now, with repetitions.
    pub(crate) fn ids(&self) -> Vec<String> {
        let mark = self.mark("marks");
        // The server passes on in order, so the mark comes last.
        eventually("the mark is heard", || self.hears(&format!("{}/marks", self.name), &mark));
        let events = format!("{}/events/", self.name);
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|(topic, ..)| topic.starts_with(&events))
            .filter_map(|(_, id, _)| id.clone())
            .collect()
    }

    /// Whether a consumer that parks what is no event has come to the end of what was published until now.
    pub(crate) fn is_drained(&self) -> bool {
        let mark = self.mark("events/mark");
        eventually("the mark is parked", || self.hears(&format!("{}/parked", self.name), &mark));
        true
    }

    fn mark(&self, below: &str) -> Vec<u8> {
        let mark = uuid::Uuid::new_v4().to_string().into_bytes();
        let topic = format!("{}/{below}", self.name);
        let options = PublishOptions::at_least_once();
        let notice = wait(self.client.publish_tracked(topic, mark.clone(), options)).unwrap();
        wait(notice.wait_async()).unwrap();
        mark
    }

    fn hears(&self, topic: &str, body: &[u8]) -> bool {
        self.heard.lock().unwrap().iter().any(|heard| heard.0 == topic && heard.2 == body)
    }
}

async fn record(mut events: EventLoop, heard: Arc<Mutex<Vec<Heard>>>) {
    loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::Publish(publish))) => {
                let properties = publish.properties.unwrap_or_default().user_properties;
                let id = properties.into_iter().find_map(|(name, value)| (name == "id").then_some(value));
                let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                heard.lock().unwrap().push((topic, id, publish.payload.to_vec()));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
