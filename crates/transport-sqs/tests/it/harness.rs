//! Queues of their own for tests, servers of their own where a test kills one, and what arrived.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
    QueueAttributeName,
};
use pillarbox_conformance::delivery::{SOON, fresh};
use pillarbox_conformance::process::OwnServer;
use pillarbox_core::EventId;
use pillarbox_testkit::eventually;

/// The server's address.
pub(crate) const SERVER: &str = "PILLARBOX_TEST_SQS";

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services sqs -- cargo test -p pillarbox-transport-sqs`")
    })
}

/// A client beside the one that is tested.
pub(crate) fn client(server: &str) -> Client {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(http)
        .endpoint_url(server);
    Client::from_conf(config.build())
}

/// A queue that no other test knows, another one for what is parked, and what was read from it.
pub(crate) struct OwnQueue {
    /// Where the server is.
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) client: Client,
    url: Mutex<String>,
    heard: Arc<Mutex<Vec<Message>>>,
}

impl OwnQueue {
    pub(crate) async fn standard() -> Self {
        Self::on(&variable(SERVER), "").await
    }

    pub(crate) async fn fifo() -> Self {
        Self::on(&variable(SERVER), ".fifo").await
    }

    pub(crate) async fn on(server: &str, ending: &str) -> Self {
        let name = format!("{}{ending}", fresh("q"));
        let client = client(server);
        let url = Mutex::new(create(&client, &name, &[]).await);
        let queue = Self { server: server.to_owned(), name, client, url, heard: Arc::default() };
        create(&queue.client, &queue.parked_name(), &[]).await;
        queue
    }

    /// The queue for what is parked. It is a standard one.
    pub(crate) fn parked_name(&self) -> String {
        self.name.replace(".fifo", "-fifo") + "-parked"
    }

    pub(crate) fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    /// Makes the queue again, on a server that has forgotten it.
    pub(crate) async fn again(&self) {
        let url = create(&self.client, &self.name, &[]).await;
        *self.url.lock().unwrap() = url;
    }

    /// The URL of a sink or a source of this queue.
    pub(crate) fn at(&self, more: &str) -> String {
        self.via(&self.server, more)
    }

    /// The same through a proxy.
    pub(crate) fn via(&self, server: &str, more: &str) -> String {
        let more = if more.is_empty() { String::new() } else { format!("&{more}") };
        format!("sqs://eu-west-1/{}?endpoint={server}{more}", self.name)
    }

    /// All messages that were sent until now, in their order where the queue tells it. They are taken from the queue.
    pub(crate) async fn messages(&self) -> Vec<Message> {
        let read = read(&self.client, &self.url()).await;
        let mut heard = self.heard.lock().unwrap();
        heard.extend(read);
        let place = |message: &Message| {
            let place = system(message, &MessageSystemAttributeName::SequenceNumber);
            place.map_or(0, |place| place.parse::<u128>().unwrap())
        };
        heard.sort_by_key(place);
        heard.clone()
    }

    /// Their bodies.
    pub(crate) async fn bodies(&self) -> Vec<String> {
        self.messages().await.into_iter().map(|message| message.body.unwrap()).collect()
    }

    /// Their event ids.
    pub(crate) async fn ids(&self) -> Vec<EventId> {
        self.bodies()
            .await
            .iter()
            .map(|body| pillarbox_conformance::Received::of_line(body).event_id)
            .collect()
    }

    /// Sends a message as somebody else would.
    pub(crate) async fn send(&self, body: &str, group: Option<&str>, attributes: &[(&str, &str)]) {
        let is_fifo = self.name.ends_with(".fifo");
        let value = |text: &str| {
            MessageAttributeValue::builder().data_type("String").string_value(text).build().unwrap()
        };
        let attributes: HashMap<_, _> =
            attributes.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect();
        let group = group.map_or_else(|| fresh("g"), str::to_owned);
        let sending = self.client.send_message().queue_url(self.url()).message_body(body);
        let sending = sending
            .set_message_attributes((!attributes.is_empty()).then_some(attributes))
            .set_message_group_id(is_fifo.then_some(group))
            .set_message_deduplication_id(is_fifo.then(|| fresh("d")));
        sending.send().await.unwrap();
    }

    /// How many messages of a queue wait, and how many are with a consumer.
    pub(crate) async fn counts(&self, name: &str) -> (usize, usize) {
        let url = self.client.get_queue_url().queue_name(name).send().await.unwrap().queue_url.unwrap();
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let asking = self.client.get_queue_attributes().queue_url(url);
        let answer =
            asking.set_attribute_names(Some(names.to_vec())).send().await.unwrap().attributes.unwrap();
        (answer[&names[0]].parse().unwrap(), answer[&names[1]].parse().unwrap())
    }
}

/// Makes a queue, and returns its address.
pub(crate) async fn create(client: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut asking = client.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        asking = asking.attributes(QueueAttributeName::FifoQueue, "true");
    }
    for (name, value) in attributes {
        asking = asking.attributes(name.clone(), *value);
    }
    asking.send().await.unwrap().queue_url.unwrap()
}

/// Takes all messages from a queue.
pub(crate) async fn read(client: &Client, url: &str) -> Vec<Message> {
    let mut all = Vec::new();
    loop {
        let asking = client.receive_message().queue_url(url).max_number_of_messages(10);
        let asking = asking.message_attribute_names("All").message_system_attribute_names("All".into());
        let messages = asking.send().await.unwrap().messages.unwrap_or_default();
        if messages.is_empty() {
            return all;
        }
        let entries = messages.iter().enumerate().map(|(place, message)| {
            let handle = message.receipt_handle.clone().unwrap();
            DeleteMessageBatchRequestEntry::builder()
                .id(place.to_string())
                .receipt_handle(handle)
                .build()
                .unwrap()
        });
        let deleting = client.delete_message_batch().queue_url(url).set_entries(Some(entries.collect()));
        assert!(deleting.send().await.unwrap().failed.is_empty());
        all.extend(messages);
    }
}

/// What the queue knows of a message.
pub(crate) fn system<'a>(message: &'a Message, name: &MessageSystemAttributeName) -> Option<&'a str> {
    message.attributes.as_ref()?.get(name).map(String::as_str)
}

/// A server of a test's own. With a certificate and a key it speaks TLS, and has the queue `orders`.
pub(crate) async fn own_server(files: Option<(String, String)>) -> OwnServer {
    let script = variable("PILLARBOX_TEST_SQS_SERVER");
    let is_plain = files.is_none();
    let server = OwnServer::start(move |port| {
        move || {
            let mut command = Command::new("node");
            command.arg(&script).env("PORT", port.to_string());
            if let Some((certificate, key)) = &files {
                command.env("CERTIFICATE", certificate).env("KEY", key).env("QUEUE", "orders");
            }
            command
        }
    })
    .await;
    if is_plain {
        let client = client(&address(&server));
        eventually(SOON, async || client.list_queues().send().await.is_ok()).await;
    }
    server
}

/// Where it is.
pub(crate) fn address(server: &OwnServer) -> String {
    format!("http://127.0.0.1:{}", server.port())
}
