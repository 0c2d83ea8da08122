//! Whether the destination of a route accepts a connection. Nothing is sent there.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Destination;

/// How long one address may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The ports of URLs that name none.
const PORTS: [(&str, u16); 14] = [
    ("amqp", 5672),
    ("amqps", 5671),
    ("nats", 4222),
    ("tls", 4222),
    ("redis", 6379),
    ("rediss", 6379),
    ("valkey", 6379),
    ("valkeys", 6379),
    ("http", 80),
    ("https", 443),
    ("kafka", 9092),
    ("kafkas", 9092),
    ("mqtt", 1883),
    ("mqtts", 8883),
];

/// Connects to the destination and hangs up. `None`: it is not on the network. An error says what is wrong.
pub(crate) async fn reach(to: &Destination) -> Option<Result<(), String>> {
    let (Destination::Broker(url) | Destination::Http(url)) = to else { return None };
    let addresses = addresses(&url.0);
    let mut why = "its URL names no host".to_owned();
    for (host, port) in addresses {
        why = match timeout(PATIENCE, TcpStream::connect((host.as_str(), port))).await {
            Ok(Ok(_)) => return Some(Ok(())),
            Ok(Err(error)) => format!("{host}:{port}: {error}"),
            Err(_) => format!("{host}:{port}: no answer within {} s", PATIENCE.as_secs()),
        };
    }
    Some(Err(why))
}

/// The hosts of a URL with their ports. User and password are left out.
fn addresses(url: &str) -> Vec<(String, u16)> {
    let Some((scheme, rest)) = url.split_once("://") else { return Vec::new() };
    if scheme.eq_ignore_ascii_case("sqs") {
        return of_sqs(rest);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    // What stands behind the plus sign says how to publish, not where.
    let scheme = scheme.split('+').next().unwrap_or_default();
    let usual =
        PORTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)).map_or(0, |(_, port)| *port);
    hosts.split(',').filter_map(|host| address(host, usual)).collect()
}

/// The server of a queue: the one of `endpoint=`, or that of the region, which stands where others have their host.
fn of_sqs(rest: &str) -> Vec<(String, u16)> {
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some(endpoint) = parameters.split('&').find_map(|one| one.strip_prefix("endpoint=")) {
        let decoded = [("%3A", ":"), ("%3a", ":"), ("%2F", "/"), ("%2f", "/")];
        return addresses(&decoded.iter().fold(endpoint.to_owned(), |text, (code, c)| text.replace(code, c)));
    }
    let region = place.split('/').next().unwrap_or_default();
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    vec![(format!("sqs.{region}.{domain}"), 443)]
}

fn address(host: &str, usual: u16) -> Option<(String, u16)> {
    // An address of version 6 stands in brackets, because it has colons of its own.
    let (name, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((name, port)) => (name, port.strip_prefix(':')),
        None => host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok())?;
    (!name.is_empty()).then(|| (name.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_url_are_found_without_its_password() {
        for (url, wanted) in [
            ("amqp://guest:p%40ss@mq/%2f?exchange=a", vec![("mq", 5672)]),
            ("nats://a:4223,b/orders.{type}", vec![("a", 4223), ("b", 4222)]),
            ("kafkas://app:p@a:9093,b/orders.{type}", vec![("a", 9093), ("b", 9092)]),
            ("mqtts+qos0://app:p@mq/orders/{type}", vec![("mq", 8883)]),
            ("https://example.org/hook", vec![("example.org", 443)]),
            ("redis://[::1]:6380/0?stream=x", vec![("::1", 6380)]),
            ("redis:///0", vec![]),
            ("sqs://eu-west-1/orders", vec![("sqs.eu-west-1.amazonaws.com", 443)]),
            ("sqs://cn-north-1/orders", vec![("sqs.cn-north-1.amazonaws.com.cn", 443)]),
            ("sqs://eu-west-1/orders?endpoint=http%3A%2F%2F127.0.0.1:4566", vec![("127.0.0.1", 4566)]),
        ] {
            let wanted: Vec<_> =
                wanted.into_iter().map(|(host, port): (&str, u16)| (host.to_owned(), port)).collect();
            assert_eq!(addresses(url), wanted, "{url}");
        }
    }

    #[tokio::test]
    async fn a_port_that_is_closed_is_told_and_an_open_one_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let to: Destination = format!("nats://user:canary@127.0.0.1:{port}/orders").parse().unwrap();
        assert_eq!(reach(&to).await, Some(Ok(())));
        drop(listener);
        let why = reach(&to).await.unwrap().unwrap_err();
        assert!(why.contains(&port.to_string()) && !why.contains("canary"), "{why}");
        assert_eq!(reach(&Destination::Null).await, None);
    }
}
