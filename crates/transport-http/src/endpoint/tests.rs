use pillarbox_core::{Event, RouteName};
use pillarbox_testkit::sample_entry;

use super::*;

/// The endpoint of a URL that these options allow.
fn allowed(url: &str, change: impl FnOnce(Options) -> Options) -> Result<Endpoint> {
    let options = change(Options::of_sink(url)?);
    options.endpoint.check(&options)?;
    Ok(options.endpoint)
}

fn endpoint(url: &str) -> Result<Endpoint> {
    allowed(url, |options| options)
}

fn private(url: &str) -> Result<Endpoint> {
    allowed(url, |options| options.allow_private(true))
}

fn refused(url: &str, with: &str) {
    let error = endpoint(url).unwrap_err().to_string();
    assert!(error.contains(with) && !error.contains("canary"), "{url}: {error}");
}

fn target(url: &str, event_type: &str, key: &str) -> Result<String, Outcome> {
    let entry = sample_entry(RouteName::new("orders").unwrap(), Event::new(event_type, "").key(key));
    endpoint(url).unwrap().target(&entry).map(|target| target.to_string())
}

#[test]
fn scheme_host_and_port_are_read() {
    for (url, tls, port, shown) in [
        ("https://example.org", true, 443, "https://example.org"),
        ("HTTPS://Example.ORG:443/x", true, 443, "https://example.org"),
        ("https://b\u{fc}cher.example/x", true, 443, "https://xn--bcher-kva.example"),
        ("https://example.org:80/x", true, 80, "https://example.org:80"),
        ("https://8.8.8.8/canary?canary", true, 443, "https://8.8.8.8"),
        ("https://[2001:4860:4860::8888]/x", true, 443, "https://[2001:4860:4860::8888]"),
    ] {
        let endpoint = endpoint(url).unwrap();
        assert_eq!((endpoint.tls, endpoint.port, format!("{endpoint:?}").as_str()), (tls, port, shown));
        endpoint.server_name().unwrap();
    }
}

#[test]
fn what_is_no_webhook_url_is_refused_without_its_path() {
    for (url, with) in [
        ("", "https://"),
        ("ftp://example.org", "https://"),
        ("example.org/canary", "https://"),
        ("https://", "host"),
        ("https:///canary", "host"),
        ("https://example.org:99999/canary", "port"),
        ("https://user:canary@example.org/", "credentials"),
        ("https://canary@example.org/", "credentials"),
        ("https://example.org/a b?canary", "blanks"),
        ("https://example.org\\canary", "backslashes"),
        ("https://example.org\n/canary", "control characters"),
        ("https://example.org/#canary", "fragment"),
        ("https://example.org/../canary", "`..`"),
        ("https://example.org/%2E%2e/canary", "`..`"),
        ("https://example.org/canary\u{e9}", "percent-encoded"),
        ("https://example.org:8443/canary", "port 443 or 80"),
        ("http://example.org/canary", "allow_http"),
    ] {
        refused(url, with);
    }
    refused(&format!("https://example.org/{}", "x".repeat(URL_BYTES_MAX)), "bytes");
}

#[test]
fn a_place_in_the_host_is_refused() {
    for url in
        ["https://{key}/", "https://{key}.example.org/x", "https://example.org:{key}/", "https://h{{x/"]
    {
        refused(url, "path and query only");
    }
    for url in ["https://example.org/{tpye}", "https://example.org/{key"] {
        refused(url, "{route}");
    }
}

#[test]
fn an_address_that_is_not_public_is_refused_in_every_spelling() {
    for url in [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://017700000001/",
        "https://\u{2460}\u{2461}\u{2466}.0.0.1/",
        "https://127\u{3002}0\u{3002}0\u{3002}1/",
        "https://%31%32%37.0.0.1/",
        "https://127.0.0.1./",
        "https://0/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data/",
        "https://2852039166/latest/meta-data/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://255.255.255.255/",
        "https://[::1]/",
        "https://[::]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[::127.0.0.1]/",
        "https://[fd00::1]/",
        "https://[fe80::1]/",
        "https://[64:ff9b::a00:1]/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://app.localhost/",
    ] {
        refused(url, "allow_private");
        private(url).unwrap();
    }
}

#[test]
fn private_endpoints_may_have_any_port_and_need_no_tls_but_public_ones_do() {
    private("http://127.0.0.1:8080/hooks").unwrap();
    private("http://hooks.internal:8080/").unwrap();
    let error = private("http://8.8.8.8/").unwrap_err().to_string();
    assert!(error.contains("allow_http"), "{error}");
    allowed("http://8.8.8.8/", |options| options.allow_http(true)).unwrap();
    allowed("https://8.8.8.8:8443/", |options| options.ports([8443])).unwrap();
    assert!(allowed("https://8.8.8.8/", |options| options.ports([8443])).is_err());
}

#[test]
fn an_entry_fills_its_places_and_cannot_leave_them() {
    let url = "https://example.org/hooks/{route}/{type}?key={key}";
    assert_eq!(target(url, "order.placed", "o-1").unwrap(), "/hooks/orders/order.placed?key=o-1");
    assert_eq!(
        target(url, "a/../b?c#d", "x&admin=1\u{e9} %").unwrap(),
        "/hooks/orders/a%2F..%2Fb%3Fc%23d?key=x%26admin%3D1%C3%A9%20%25"
    );
    for key in [".", ".."] {
        let outcome = target("https://example.org/{key}/x", "t", key).unwrap_err();
        assert!(
            matches!(&outcome, Outcome::Rejected(failure) if failure.code() == "invalid_path"),
            "{outcome:?}"
        );
    }
    assert_eq!(target("https://example.org", "t", "k").unwrap(), "/");
    assert_eq!(target("https://example.org?k={key}", "t", "k").unwrap(), "/?k=k");
}
