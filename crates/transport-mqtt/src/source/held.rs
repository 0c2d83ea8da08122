//! What a source remembers of messages: how often each was handed out, and which were given back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::Received;
use rumqttc::Publish;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::binding;

/// How often each unanswered message was handed out, by its packet id. A server sends an unanswered message again
/// under the id that it had, also over the next connection of the session.
#[derive(Default)]
pub(super) struct Counts(Mutex<HashMap<u16, u32>>);

impl Counts {
    /// Counts a message that is handed out.
    pub(super) fn next(&self, message: &Message) -> u32 {
        let mut counts = self.counts();
        let before = match counts.get(&message.publish.pkid) {
            // Under an id that is free again, the server sends another message.
            Some(before) if message.is_again() => *before,
            _ => u32::from(message.is_again()),
        };
        let count = before.saturating_add(1);
        counts.insert(message.publish.pkid, count);
        count
    }

    /// The message was answered.
    pub(super) fn forget(&self, packet_id: u16) {
        self.counts().remove(&packet_id);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u16, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message of the server.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) publish: Publish,
    /// How many messages of its connection had arrived by then.
    number: i64,
    /// Its place among the messages of its connection. `None`: the server sent it before, over another one.
    pub(super) place: Option<i64>,
    /// Whether it was given back here.
    pub(super) returned: bool,
}

impl Message {
    /// The message of this number that arrived.
    pub(super) fn arrived(publish: Publish, number: i64) -> Self {
        let place = Some(number).filter(|_| !publish.dup);
        Self { publish, number, place, returned: false }
    }

    /// Its ordering key.
    fn key(&self) -> Option<String> {
        let (attributes, _) = binding::read(self.publish.properties.clone());
        Received::key_of(&attributes).map(ToOwned::to_owned)
    }

    /// Whether it was sent or handed out before.
    fn is_again(&self) -> bool {
        self.returned || self.publish.dup
    }
}

/// The messages of one subscription that were given back, and the newer ones of their keys.
#[derive(Default)]
pub(super) struct Returned {
    messages: Mutex<pillarbox_host::Returned<String, Message, Instant>>,
    added: Notify,
}

impl Returned {
    /// Gives a message back. It is due after the delay.
    pub(super) fn push(&self, message: Message, delay: Duration) {
        let message = Message { returned: true, ..message };
        self.messages().push(message.key(), message.number, Instant::now() + delay, message);
        self.added.notify_one();
    }

    /// Takes a message that has just arrived, and returns it if nothing of its key was given back.
    pub(super) fn arrive(&self, message: Message) -> Option<Message> {
        let mut messages = self.messages();
        // Reading the key is only worth it after a failure.
        if messages.is_empty() {
            Some(message)
        } else {
            messages.arrive(message.key(), message.number, message)
        }
    }

    /// The next message that may be handed out.
    pub(super) fn pop(&self) -> Option<Message> {
        self.messages().pop(Instant::now())
    }

    /// Resolves when the first message is due, or another one was given back.
    pub(super) async fn changed(&self) {
        let due = self.messages().due();
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => self.added.notified().await,
        }
    }

    fn messages(&self) -> MutexGuard<'_, pillarbox_host::Returned<String, Message, Instant>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rumqttc::QoS;

    fn message(pkid: u16, dup: bool) -> Message {
        let mut publish = Publish::new("t", QoS::AtLeastOnce, "", None);
        (publish.pkid, publish.dup) = (pkid, dup);
        Message::arrived(publish, 1)
    }

    #[test]
    fn a_message_is_counted_until_it_is_answered() {
        let counts = Counts::default();
        assert_eq!(counts.next(&message(1, false)), 1);
        assert_eq!(counts.next(&Message { returned: true, ..message(1, false) }), 2);
        assert_eq!(counts.next(&message(1, true)), 3, "over the next connection");
        assert_eq!(counts.next(&message(2, true)), 2, "sent to a process before this one");
        counts.forget(1);
        assert_eq!(counts.next(&message(1, false)), 1);
        assert_eq!(counts.next(&message(2, false)), 1, "another message under an id that is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_back_is_due_after_its_delay_and_in_order() {
        let returned = Returned::default();
        let delay = Duration::from_millis(100);
        for pkid in [7, 8] {
            returned.push(message(pkid, false), delay);
        }
        assert!(returned.pop().is_none());
        tokio::time::advance(delay).await;
        returned.changed().await;
        assert_eq!(returned.pop().map(|message| message.publish.pkid), Some(7));
        assert_eq!(returned.pop().map(|message| message.publish.pkid), Some(8));
        assert!(returned.pop().is_none());
    }
}
