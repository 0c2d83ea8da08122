//! What only a sink to MQTT does.

use pillarbox_conformance::delivery::{confirm, entries, entry, ids};
use pillarbox_core::{Entry, Event};
use pillarbox_transport_mqtt::MqttSink;

use crate::harness::{Listener, OwnTopic, Server};

fn topics(heard: &[rumqttc::Publish]) -> Vec<String> {
    heard.iter().map(|publish| String::from_utf8(publish.topic.to_vec()).unwrap()).collect()
}

/// A key must not choose another topic, and two keys must not meet in one.
#[tokio::test]
async fn a_key_is_one_level_of_the_topic_whatever_is_in_it() {
    let place = OwnTopic::new().await;
    let sink = MqttSink::new(&format!("{}/{}/by/{{key}}/{{type}}", place.server, place.name)).unwrap();
    let keys = ["o-1", "a/b", "+", "#", "../x", "a%2Fb", "$SYS", "Euro \u{20ac}"];
    let batch: Vec<Entry> = keys.iter().map(|key| entry(Event::new("t/u", "{}").key(*key))).collect();
    confirm(&sink, &batch).await;
    let levels = ["o-1", "a%2Fb", "%2B", "%23", "..%2Fx", "a%252Fb", "%24SYS", "Euro \u{20ac}"];
    let expected = levels.map(|level| format!("{}/by/{level}/t%2Fu", place.name));
    assert_eq!(topics(&place.listener.messages().await), expected);
}

/// A server ends the connection of a client that sends more than it takes.
#[tokio::test]
async fn no_more_is_unconfirmed_than_the_server_takes() {
    let server = Server::start("allow_anonymous true\nmax_inflight_messages 2\nmax_queued_messages 0").await;
    for qos in [1, 2] {
        let name = format!("qos{qos}");
        let listener = Listener::start(server.port(), &format!("{name}/#")).await;
        let batch = entries(500);
        confirm(&MqttSink::new(&format!("{}/{name}/{{type}}?qos={qos}", server.url())).unwrap(), &batch)
            .await;
        assert_eq!(listener.ids().await, ids(&batch));
    }
}

/// Who subscribes later gets nothing of it: that is what the inbox and sessions are for.
#[tokio::test]
async fn nothing_is_published_as_retained() {
    let place = OwnTopic::new().await;
    confirm(&MqttSink::new(&place.to()).unwrap(), &entries(3)).await;
    assert_eq!(place.listener.messages().await.len(), 3);
    let port = place.server.rsplit_once(':').unwrap().1.parse().unwrap();
    let later = Listener::start(port, &format!("{}/#", place.name)).await;
    assert!(later.messages().await.is_empty());
}
