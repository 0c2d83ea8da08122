//! The brokers of this build: one line for each.

use std::sync::Arc;

use pillarbox_core::port::{Sink, Source, Transcript};
use pillarbox_core::{Error, Result, RouteName};

/// A kind of broker.
pub(super) struct Broker {
    /// The feature of this package that has it.
    feature: &'static str,
    /// The schemes of its URLs.
    schemes: &'static [&'static str],
    /// What can be done with such a URL. `None`: the feature is off.
    ends: Option<Ends>,
}

/// What can be done with the URL of a broker.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// The sink that delivers to it. It connects when something is delivered.
    pub(super) sink: fn(&str) -> Result<Arc<dyn Sink>>,
    /// The source that consumes from it. It connects when a consumer subscribes.
    pub(super) source: fn(&str) -> Result<Arc<dyn Source>>,
    /// What is kept where the URL says.
    pub(super) transcript: fn(&str) -> Result<Box<dyn Transcript>>,
    /// What the sink of this URL has put there for a route.
    pub(super) sent: fn(&str, &RouteName) -> Result<Box<dyn Transcript>>,
}

/// A broker, if its feature is on.
macro_rules! broker {
    ($feature:literal, $schemes:expr, $transport:ident::{$sink:ident, $source:ident, $transcript:ident}) => {{
        #[cfg(feature = $feature)]
        let ends = Some(Ends {
            sink: |url| Ok(Arc::new($transport::$sink::new(url)?)),
            source: |url| Ok(Arc::new($transport::$source::new(url)?)),
            transcript: |url| Ok(Box::new($transport::$transcript::new(url)?)),
            sent: |url, route| Ok(Box::new($transport::$transcript::of_sink(url, route)?)),
        });
        #[cfg(not(feature = $feature))]
        let ends = None;
        Broker { feature: $feature, schemes: &$schemes, ends }
    }};
}

static BROKERS: [Broker; 6] = [
    broker!("amqp", ["amqp", "amqps"], pillarbox_transport_amqp::{AmqpSink, AmqpSource, AmqpTranscript}),
    broker!("kafka", ["kafka", "kafkas"], pillarbox_transport_kafka::{KafkaSink, KafkaSource, KafkaTranscript}),
    broker!(
        "mqtt",
        ["mqtt", "mqtts", "mqtt+qos0", "mqtts+qos0"],
        pillarbox_transport_mqtt::{MqttSink, MqttSource, MqttTranscript}
    ),
    broker!(
        "nats",
        ["nats", "tls", "nats+core", "tls+core"],
        pillarbox_transport_nats::{NatsSink, NatsSource, NatsTranscript}
    ),
    broker!(
        "redis",
        [
            "redis",
            "rediss",
            "valkey",
            "valkeys",
            "redis+pubsub",
            "rediss+pubsub",
            "valkey+pubsub",
            "valkeys+pubsub",
        ],
        pillarbox_transport_redis::{RedisSink, RedisSource, RedisTranscript}
    ),
    broker!("sqs", ["sqs"], pillarbox_transport_sqs::{SqsSink, SqsSource, SqsTranscript}),
];

impl Broker {
    /// The broker of a scheme in lower case.
    pub(super) fn of_scheme(scheme: &str) -> Option<&'static Self> {
        BROKERS.iter().find(|broker| broker.schemes.contains(&scheme))
    }

    /// What can be done with its URLs.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) if it was left out of this build.
    pub(super) fn ends(&self) -> Result<Ends> {
        self.ends.ok_or_else(|| left_out(self.schemes[0], self.feature))
    }
}

/// The error for a scheme that was left out of this build.
pub(super) fn left_out(scheme: &str, feature: &str) -> Error {
    Error::invalid(format!(
        "{scheme}: was left out of this build. Build pillarbox with its default features, or with --features {feature}"
    ))
}
