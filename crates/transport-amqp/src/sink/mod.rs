//! Publishing: confirmed, persistent, mandatory, and pipelined.

mod ledger;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join;
use lapin::options::{BasicQosOptions, ConfirmSelectOptions};
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Outcome, Result};
use pillarbox_host::Lazy;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::binding::{self, short};
use crate::connection::{Link, within};
use crate::error::{Fault, Means, no_confirm, too_large};
use crate::options::Options;

use ledger::{Answer, Ledger, Outgoing};

/// Publishes to RabbitMQ. All deliveries use one connection and one channel, so that they stay in order.
///
/// A message counts as delivered when the broker confirmed it. It is then on disk in every durable queue to
/// which it was routed. If no queue is bound for a message, the message is rejected.
pub struct AmqpSink {
    options: Arc<Options>,
    publisher: Lazy<Arc<Publisher>, Fault>,
    /// Whose turn it is to publish. First come, first served, also while all wait for the connection.
    turn: Mutex<()>,
    /// The broker's own limit, once a message has exceeded it.
    learned_bytes_max: AtomicUsize,
}

/// An open channel in confirm mode.
struct Publisher {
    ledger: Ledger,
    link: Link,
    /// Set when a delivery was given up: it is unknown whether the broker still answers.
    doubtful: AtomicBool,
    /// Whether it does, asked once for all who want to know.
    question: Lazy<(), Fault>,
}

impl AmqpSink {
    /// A sink to `amqp://host/vhost?exchange=…&routing_key=…`. This only checks the URL. The sink connects at
    /// the first delivery.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part of the URL and what is allowed.
    ///
    /// ```
    /// use pillarbox_transport_amqp::AmqpSink;
    ///
    /// let sink = AmqpSink::new("amqp://127.0.0.1/%2f?exchange=orders&routing_key={type}")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?)
    }

    /// A sink with these settings.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the setting.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let learned_bytes_max = AtomicUsize::new(usize::MAX);
        let (publisher, turn) = (Lazy::new(), Mutex::new(()));
        Ok(Self { options: Arc::new(options), publisher, turn, learned_bytes_max })
    }

    fn payload_bytes_max(&self) -> usize {
        let configured = self.options.payload_bytes_max.unwrap_or(usize::MAX);
        configured.min(self.learned_bytes_max.load(Ordering::Relaxed))
    }

    /// A channel on which the broker answers.
    async fn publisher(&self) -> Result<Arc<Publisher>, Fault> {
        let open = || Publisher::open(Arc::clone(&self.options));
        let get = || self.publisher.get(|publisher| publisher.is_up(), open);
        let publisher = get().await?;
        if !publisher.doubtful.load(Ordering::Relaxed) || publisher.is_blocked() {
            return Ok(publisher);
        }
        let ask = || {
            let (channel, limit) = (publisher.ledger.channel().clone(), self.options.connect_timeout);
            // Any question will do; this one changes nothing for a channel that only publishes.
            async move { within(limit, "a question", channel.basic_qos(0, BasicQosOptions::default())).await }
        };
        match publisher.question.get(|()| false, ask).await {
            Ok(()) => {
                publisher.doubtful.store(false, Ordering::Relaxed);
                Ok(publisher)
            }
            Err(_) => {
                publisher.link.give_up();
                get().await
            }
        }
    }

    /// What to publish, or why it cannot be.
    fn outgoing(&self, entry: &Entry, frame_bytes_max: usize) -> Result<Outgoing, Outcome> {
        let limit = self.payload_bytes_max();
        if entry.payload.len() > limit {
            return Err(too_large(entry.payload.len(), limit));
        }
        let Options { exchange, routing_key, source, header_prefix, .. } = &*self.options;
        Ok(Outgoing {
            exchange: short("exchange_too_long", "exchange", exchange.render(entry).into_owned())?,
            routing_key: short(
                "routing_key_too_long",
                "routing key",
                routing_key.render(entry).into_owned(),
            )?,
            properties: binding::write(entry, source, header_prefix.unwrap_or_default(), frame_bytes_max)?,
            payload: entry.payload.clone(),
        })
    }

    /// Reports what the broker said; gives back what was lost, with the outcome that it has if the broker is there.
    fn settle(
        &self,
        batch: &[Entry],
        answers: Vec<(usize, Answer)>,
        report: &dyn Report,
    ) -> Vec<(usize, Outcome)> {
        let mut lost = Vec::new();
        for (index, answer) in answers {
            let (fault, progress) = match answer {
                Answer::Known(outcome) => {
                    report.outcome(index, outcome);
                    continue;
                }
                Answer::Broken(fault, progress) => (fault, progress),
            };
            if let Means::TooLarge(limit) = fault.means {
                self.learned_bytes_max.fetch_min(limit, Ordering::Relaxed);
            }
            match fault.outcome(batch[index].payload.len(), progress) {
                outcome @ Outcome::Unknown(_) => lost.push((index, outcome)),
                outcome => report.outcome(index, outcome),
            }
        }
        lost
    }
}

impl Publisher {
    async fn open(options: Arc<Options>) -> Result<Arc<Self>, Fault> {
        let link = Link::open(&options).await?;
        let opening = async {
            let channel = link.connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        };
        let channel = within(options.connect_timeout, "open a channel", opening).await?;
        let ledger = Ledger::new(channel, link.connection.events_listener());
        Ok(Arc::new(Self { ledger, link, doubtful: AtomicBool::new(false), question: Lazy::new() }))
    }

    fn is_up(&self) -> bool {
        self.link.is_up() && self.ledger.channel().status().connected()
    }

    /// Whether the broker takes no messages because it is the broker is short of memory or disk.
    fn is_blocked(&self) -> bool {
        self.link.connection.status().blocked()
    }

    fn blocked(&self) -> Outcome {
        let why = self.ledger.blocked_because();
        Outcome::down("blocked", format!("the broker accepts no messages: {why}"))
    }
}

/// Marks the publisher as doubtful unless the delivery came to its end.
struct UntilDone<'a> {
    publisher: &'a Publisher,
    done: bool,
}

impl Drop for UntilDone<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.publisher.doubtful.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Sink for AmqpSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.system = "rabbitmq";
        capabilities.payload_bytes_max = Some(self.payload_bytes_max()).filter(|limit| *limit != usize::MAX);
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if batch.is_empty() {
            return;
        }
        let all =
            |outcome: &Outcome| (0..batch.len()).for_each(|index| report.outcome(index, outcome.clone()));
        // Deliveries wait for the connection together and for their turn in their order.
        let (publisher, turn) = join(self.publisher(), self.turn.lock()).await;
        let publisher = match publisher {
            Ok(publisher) => publisher,
            Err(fault) => return all(&fault.as_down()),
        };
        if publisher.is_blocked() {
            return all(&publisher.blocked());
        }
        let frame_bytes_max = publisher.link.connection.configuration().frame_max();
        let frame_bytes_max = usize::try_from(frame_bytes_max).unwrap_or(usize::MAX);

        let mut until_done = UntilDone { publisher: &publisher, done: false };
        let mut delivery = publisher.ledger.begin();
        let mut unanswered = vec![false; batch.len()];
        for (index, entry) in batch.iter().enumerate() {
            match self.outgoing(entry, frame_bytes_max) {
                Ok(message) => {
                    delivery.publish(index, message);
                    unanswered[index] = true;
                }
                Err(outcome) => report.outcome(index, outcome),
            }
        }
        drop(turn);

        let (mut lost, mut unconfirmed) = (Vec::new(), false);
        while delivery.open() > 0 {
            let answers = delivery.answers(|| publisher.is_blocked());
            let Ok(answers) = timeout(self.options.confirm_timeout, answers).await else {
                unconfirmed = true;
                break;
            };
            answers.iter().for_each(|(index, _)| unanswered[*index] = false);
            if answers.iter().any(|(_, answer)| matches!(answer, Answer::Broken(..))) {
                // The client may call the connection open for a moment longer.
                publisher.link.give_up();
            }
            lost.extend(self.settle(batch, answers, report));
            if delivery.open() > 0 && publisher.is_blocked() {
                let open = (0..batch.len()).filter(|index| unanswered[*index]);
                open.for_each(|index| report.outcome(index, publisher.blocked()));
                break;
            }
        }
        // Whether the broker still answers is asked below.
        until_done.done = !unconfirmed;
        drop(until_done);
        if lost.is_empty() && !unconfirmed {
            return;
        }
        // Whether they arrived is unknown either way. If the broker does not answer any more, the destination
        // is down, and an outage costs no attempts. If the broker answers, one of these messages may have
        // ended the connection.
        let down = self.publisher().await.err().map(|fault| fault.as_down());
        if unconfirmed {
            let silent = down.clone().unwrap_or_else(|| no_confirm(self.options.confirm_timeout));
            let open = (0..batch.len()).filter(|index| unanswered[*index]);
            open.for_each(|index| report.outcome(index, silent.clone()));
        }
        for (index, unknown) in lost {
            report.outcome(index, down.clone().unwrap_or(unknown));
        }
    }
}
