//! Which client sends a request: the address behind the proxy, if there is one that is trusted.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

/// Proxies append the address that they were asked from to this header.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client. Behind a proxy it is the last one in `X-Forwarded-For`: only that one is the proxy's own
/// word, and a client can write everything before it. If it is missing or no address, it is the peer of the connection.
pub(crate) fn client_of(headers: &HeaderMap, peer: Option<IpAddr>, behind_proxy: bool) -> Option<IpAddr> {
    let told = behind_proxy.then(|| headers.get_all(FORWARDED_FOR).iter().next_back()).flatten();
    let last = told.and_then(|value| value.to_str().ok()).and_then(|value| value.rsplit(',').next());
    last.and_then(|last| address(last.trim())).or(peer).map(|address| address.to_canonical())
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn check(headers: &[&'static str], behind_proxy: bool, expected: &str) {
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(FORWARDED_FOR, HeaderValue::from_static(value));
        }
        let client = client_of(&map, Some(PROXY), behind_proxy).unwrap();
        assert_eq!(client.to_string(), expected, "{headers:?}");
    }

    #[test]
    fn behind_a_proxy_the_client_is_the_last_address_that_the_proxy_appended() {
        check(&["192.0.2.7"], true, "192.0.2.7");
        check(&["203.0.113.9, 192.0.2.7"], true, "192.0.2.7");
        check(&["203.0.113.9", "198.51.100.1,192.0.2.7"], true, "192.0.2.7");
        check(&["192.0.2.7:4711"], true, "192.0.2.7");
        check(&["2001:db8::1"], true, "2001:db8::1");
        check(&["[2001:db8::1]"], true, "2001:db8::1");
        check(&["[2001:db8::1]:4711"], true, "2001:db8::1");
        check(&["::ffff:192.0.2.7"], true, "192.0.2.7");
    }

    #[test]
    fn what_is_no_address_or_not_from_a_proxy_is_not_believed() {
        check(&[], true, "10.0.0.1");
        for bad in ["", "unknown", "192.0.2.7,", "192.0.2.7, x", "192.0.2", "192.0.2.7 192.0.2.8"] {
            check(&[bad], true, "10.0.0.1");
        }
        check(&["192.0.2.7"], false, "10.0.0.1");
    }
}
