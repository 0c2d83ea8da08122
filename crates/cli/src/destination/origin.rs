//! Where a consumer receives from: the URL of a broker.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pillarbox_core::port::Source;
use pillarbox_core::{Error, Result, redact_refused_url};

use super::BrokerUrl;
use super::broker::Broker;

/// What can be consumed from.
const KNOWN: &str = "amqp(s)://HOST/VHOST?queue=NAME, kafka(s)://HOST/TOPIC?group=NAME, mqtt(s)://HOST/TOPIC?group=NAME&client_id=NAME, \
    nats://HOST/SUBJECT?stream=NAME&durable=NAME, redis(s)://HOST/DB?stream=NAME&group=NAME and sqs://REGION/QUEUE";

/// The queue, stream or subject that a consumer receives from.
#[derive(Clone, Debug)]
pub struct Origin(BrokerUrl);

impl Origin {
    /// The source. It connects when a consumer subscribes.
    pub fn source(&self) -> Result<Arc<dyn Source>> {
        (self.0.ends()?.source)(&self.0.0)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Origin {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let Some(broker) = scheme.and_then(|scheme| Broker::of_scheme(&scheme)) else {
            return Err(Error::invalid(format!(
                "{:?} cannot be consumed from: it is not the URL of a broker. Write {KNOWN}",
                redact_refused_url(url)
            )));
        };
        let origin = Self(BrokerUrl(url.to_owned()));
        // A source checks its URL when it is made.
        (broker.ends()?.source)(url)?;
        Ok(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_of_brokers_are_read_and_their_passwords_are_not_printed() {
        for url in [
            "amqp://app:canary@h/%2f?queue=billing",
            "kafka://app:canary@h,i:9093/orders?group=billing",
            "mqtt://app:canary@h/orders/%23?group=billing&client_id=billing-1",
            "nats://app:canary@h/orders.>?stream=ORDERS&durable=billing",
            "redis://app:canary@h/0?stream=orders&group=billing",
        ] {
            let origin: Origin = url.parse().unwrap();
            assert!(!format!("{origin} {origin:?}").contains("canary"), "{origin}");
        }
    }

    #[test]
    fn what_cannot_be_consumed_from_says_what_can() {
        for url in ["file:x", "stdout:", "https://h/x", "billing", "amqp:billing"] {
            let error = url.parse::<Origin>().unwrap_err().to_string();
            assert!(error.contains("queue=NAME") && error.contains("durable=NAME"), "{url}: {error}");
        }
        assert!("redis://h/0?stream=orders".parse::<Origin>().is_err(), "a group is needed");
    }
}
