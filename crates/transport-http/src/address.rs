//! Which addresses a webhook may go to: the public internet, unless the operator says otherwise.
//!
//! A URL from outside must not reach services that only this machine can reach: services on loopback, the
//! private network, the metadata service of a cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges that are not the public internet: network, length of its prefix, what it is.
const SPECIAL_V4: &[(Ipv4Addr, u8, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "\"this network\""),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "carrier-grade NAT"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved or broadcast"),
];

/// The same for IPv6. What is in none of these and not in [`GLOBAL_V6`] is refused as well.
const SPECIAL_V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4-mapped"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "for protocols like Teredo"),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];
/// The part of IPv6 that addresses on the internet come from.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Networks without IPv4 reach it through this one; the last 32 bits are the IPv4 address.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// What an address is, if it is not on the public internet.
pub(crate) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let range = SPECIAL_V4
        .iter()
        .find(|(network, length, _)| (address.to_bits() ^ network.to_bits()) >> (32 - length) == 0);
    range.map(|(_, _, what)| *what)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let within =
        |(network, length): (Ipv6Addr, u8)| (address.to_bits() ^ network.to_bits()) >> (128 - length) == 0;
    if within(NAT64) {
        let [.., a, b, c, d] = address.octets();
        return special_v4(Ipv4Addr::new(a, b, c, d));
    }
    let range = SPECIAL_V6.iter().find(|(network, length, _)| within((*network, *length)));
    let other = if within(GLOBAL_V6) { None } else { Some("reserved") };
    range.map(|(_, _, what)| *what).or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, what: Option<&str>) {
        assert_eq!(special(address.parse().unwrap()), what, "{address}");
    }

    #[test]
    fn every_range_is_refused_from_its_first_to_its_last_address() {
        for (addresses, what) in [
            (["0.0.0.0", "0.255.255.255"], "\"this network\""),
            (["10.0.0.0", "10.255.255.255"], "private"),
            (["100.64.0.0", "100.127.255.255"], "carrier-grade NAT"),
            (["127.0.0.1", "127.255.255.255"], "loopback"),
            (["169.254.169.254", "169.254.255.255"], "link-local"),
            (["172.16.0.0", "172.31.255.255"], "private"),
            (["192.0.0.0", "192.0.0.255"], "for protocols"),
            (["192.0.2.0", "192.0.2.255"], "for documentation"),
            (["192.88.99.0", "192.88.99.255"], "a 6to4 relay"),
            (["192.168.0.0", "192.168.255.255"], "private"),
            (["198.18.0.0", "198.19.255.255"], "for benchmarks"),
            (["198.51.100.0", "198.51.100.255"], "for documentation"),
            (["203.0.113.0", "203.0.113.255"], "for documentation"),
            (["224.0.0.0", "239.255.255.255"], "multicast"),
            (["240.0.0.0", "255.255.255.255"], "reserved or broadcast"),
            (["::1", "::1"], "loopback"),
            (["::", "::"], "unspecified"),
            (["::ffff:0.0.0.0", "::ffff:255.255.255.255"], "IPv4-mapped"),
            (["::ffff:8.8.8.8", "::ffff:127.0.0.1"], "IPv4-mapped"),
            (["::2", "::127.0.0.1"], "IPv4-compatible"),
            (["2001::", "2001:1ff:ffff::"], "for protocols like Teredo"),
            (["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"], "for documentation"),
            (["2002::", "2002:ffff::1"], "6to4"),
            (["3fff::", "3fff:fff::1"], "for documentation"),
            (["fc00::", "fdff:ffff::1"], "private"),
            (["fe80::", "febf:ffff::1"], "link-local"),
            (["fec0::1", "100::1"], "reserved"),
            (["4000::1", "64:ff9b:1::1"], "reserved"),
            (["ff00::", "ff02::1"], "multicast"),
            (["64:ff9b::10.0.0.1", "64:ff9b::192.168.0.1"], "private"),
        ] {
            for address in addresses {
                check(address, Some(what));
            }
        }
    }

    #[test]
    fn what_is_next_to_a_range_is_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "3ffe::1",
            "64:ff9b::8.8.8.8",
        ] {
            check(address, None);
        }
    }
}
