//! Canaries: a secret goes in, and must not come out.

use proptest::prelude::*;

use super::{redact, redact_refused_url, redact_url};

fn check(input: &str, expect: &str) {
    assert_eq!(redact(input), expect);
    assert_eq!(redact(expect), expect, "masking again changed it");
}

fn check_url(input: &str, expect: &str) {
    assert_eq!(redact_url(input), expect);
    assert_eq!(redact_url(expect), expect, "masking again changed it");
}

#[test]
fn a_url_keeps_everything_but_its_secrets() {
    check_url("postgres://app:canary@db:5432/shop", "postgres://app:***@db:5432/shop");
    check_url("postgres://app@db/shop?sslmode=require", "postgres://app@db/shop?sslmode=require");
    check_url("redis://:canary@cache/0?stream=s", "redis://:***@cache/0?stream=s");
    check_url("sqlite://pillarbox.db?mode=rwc", "sqlite://pillarbox.db?mode=rwc");
    check_url(
        "amqp://a:canary@mq/%2f?exchange=o&routing_key={type}",
        "amqp://a:***@mq/%2f?exchange=o&routing_key={type}",
    );
    check_url("file:out.ndjson", "file:out.ndjson");
    check_url("nats://127.0.0.1:4222/orders", "nats://127.0.0.1:4222/orders");
}

#[test]
fn token_like_query_values_are_masked() {
    check_url("https://h/x?token=canary&a=1", "https://h/x?token=***&a=1");
    check_url("https://h/x?a=1&X-Amz-Signature=canary#top", "https://h/x?a=1&X-Amz-Signature=***");
    check_url("https://h/?sig=canary&se=2026", "https://h/?sig=***&se=2026");
    check_url("https://h/?key=canary", "https://h/?key=***");
    check_url("https://h/#access_token=canary", "https://h/#access_token=***");
    check_url("https://h/?a=b#token=canary?x", "https://h/?a=b#token=***");
    check_url(
        "postgres://h/db?user=a&password=can#a?ry&sslmode=x",
        "postgres://h/db?user=a&password=***&sslmode=x",
    );
    check_url("https://h/?password=&a=1", "https://h/?password=&a=1");
}

#[test]
fn malformed_urls_leak_nothing() {
    check_url("postgres://app:can@ary@db/shop", "postgres://app:***@db/shop");
    check_url("postgres://app:can/ary@db/shop", "postgres://app:***@db/shop");
    check_url("postgres://app:can?a#ry@db/shop", "postgres://app:***@db/shop");
    check_url("postgres://app:can ary@db", "postgres://app:***@db");
    check_url("postgres:/app:canary@db", "postgres:***@db");
    check_url("root:canary@tcp(db)/shop", "root:***@tcp(db)/shop");
    check_url("://:canary@", "://:***@");
    check_url("", "");
    check_url("@", "@");
}

#[test]
fn of_a_url_that_was_refused_nothing_before_its_at_sign_is_shown() {
    for (input, expect) in [
        ("postgres://canary@db:port/shop", "postgres://***@db:port/shop"),
        ("postgres://canary:canary@db:port", "postgres://***@db:port"),
        ("postgres://can@a/r?y:canary@db", "postgres://***@db"),
        ("canary@db/shop?token=canary&a=1", "***@db/shop?token=***&a=1"),
        ("postgres:canary@db", "***@db"),
        ("amqp//canary:canary@mq", "***@mq"),
        ("canary canary://x@db", "***@db"),
        ("canary@amqp://mq", "***@amqp://mq"),
        ("mq:port", "mq:port"),
    ] {
        assert_eq!(redact_refused_url(input), expect);
        assert_eq!(redact_refused_url(expect), expect, "masking again changed it");
    }
}

#[test]
fn a_user_without_a_password_is_a_token_over_http_and_to_nats_and_a_name_elsewhere() {
    check_url("https://canary@git.example.org/x", "https://***@git.example.org/x");
    check_url("https://canary:@api.example.org", "https://***@api.example.org");
    check_url("nats://canary@h:4222/orders.{type}", "nats://***@h:4222/orders.{type}");
    check_url("tls://canary@h1:4222,h2:4222/orders", "tls://***@h1:4222,h2:4222/orders");
    check_url("kafka://app:canary@a:9092,b:9092/orders", "kafka://app:***@a:9092,b:9092/orders");
    check_url("mqtt://sensor@broker/topic", "mqtt://sensor@broker/topic");
    check_url("mqtts+qos0://app:canary@broker/a/{type}", "mqtts+qos0://app:***@broker/a/{type}");
}

#[test]
fn urls_are_found_in_prose() {
    check(
        "cannot reach postgres://app:canary@db/shop: refused",
        "cannot reach postgres://app:***@db/shop: refused",
    );
    check("(\"amqp://a:canary@mq\")", "(\"amqp://a:***@mq\")");
    check("cannot reach nats://canary@mq:4222: refused", "cannot reach nats://***@mq:4222: refused");
    check("GET https://h/x?token=canary&page=2 gave 500", "GET https://h/x?token=***&page=2 gave 500");
    check("url=postgresql+asyncpg://u:canary@h", "url=postgresql+asyncpg://u:***@h");
    check("postgres://u:can\"a<r>y@h and more", "postgres://u:***@h and more");
    check("dsn root:canary@tcp(h:3306)/db", "dsn root:***@tcp(h:3306)/db");
    check("https://h:8443/path gave 503", "https://h:8443/path gave 503");
    check(r#"{"url":"https://h/x","password":"canary"}"#, r#"{"url":"https://h/x","password":"***"}"#);
}

#[test]
fn values_of_secret_names_are_masked() {
    check("host=db password=canary user=app", "host=db password=*** user=app");
    check("password='can ary' user=app", "password='***' user=app");
    check("PGPASSWORD=canary", "PGPASSWORD=***");
    check("token: canary", "token: ***");
    check("client_secret => canary!", "client_secret => ***");
    check("{\"api_key\": \"can\\\"ary\", \"n\": 1}", "{\"api_key\": \"***\", \"n\": 1}");
    check("Options { password: Some(\"can ary\"), port: 1 }", "Options { password: *** port: 1 }");
    check("--token=canary --verbose", "--token=*** --verbose");
    check("password=\"canary never closed", "password=\"***");
    check("{\\\"password\\\":\\\"canary\\\"}", "{\\\"password\\\":***");
}

#[test]
fn authorization_is_masked() {
    check("Authorization: Bearer canary, canary\nHost: h", "Authorization: ***\nHost: h");
    check("sent Bearer canary.x-y_z to h", "sent Bearer *** to h");
    check("sent basic dXNlcjpjYW5hcnk= to h", "sent basic *** to h");
    check("basic functions failed", "basic functions failed");
    check("set-cookie: id=canary; path=/", "set-cookie: ***");
}

#[test]
fn well_known_secrets_are_masked() {
    check("signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw+/==", "signed with whsec_***");
    check("key sk_live_canarycanary.", "key sk_live_***");
    check("id.ghp_canarycanarycanary", "id.ghp_***");
    check("jwt eyJhbGciOi.eyJzdWIi.c2ln", "jwt eyJ***");
    check("whsec_ is a prefix", "whsec_ is a prefix");
    check(
        "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----\nafter",
        "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\nafter",
    );
    check("-----BEGIN PRIVATE KEY-----\ncanary", "-----BEGIN PRIVATE KEY-----***");
    check("-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nMII");
}

#[test]
fn ordinary_words_stay() {
    for text in [
        "key must not be empty",
        "queue orders not found (NOT_FOUND, 404)",
        "duplicate key value violates unique constraint \"orders_pkey\"",
        "handler ship_order panicked at src/main.rs:12:5",
        "2026-01-31T12:00:00Z: connection reset by peer",
        "the key: o-7 is held back",
        "naïve — 日本語 ✓",
        "tasks: 3, passed: 2, authority: x",
    ] {
        check(text, text);
    }
}

#[test]
fn a_long_hostile_text_takes_linear_time() {
    // Quadratic work on texts of this size would not end within the patience of any test run.
    for piece in ["a:", "a://", "a/", "eyJ", "x=\"", "whsec_/", "-----BEGIN "] {
        let text = piece.repeat(100_000 / piece.len());
        assert!(!redact(&text).is_empty());
    }
}

/// Pieces that the rules look at, mixed with anything.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "://",
        "http://",
        "postgres://",
        "user",
        ":",
        "@",
        "/",
        "?",
        "#",
        "&",
        "=",
        "=>",
        " ",
        "\t",
        "\n",
        "\"",
        "'",
        "\\",
        "password",
        "token",
        "key",
        "auth",
        "authorization",
        "Bearer ",
        "basic ",
        "dXNlcjpwYXNz",
        "whsec_",
        "eyJ",
        "AKIA",
        "12345678",
        "***",
        "*",
        "-----BEGIN ",
        "PRIVATE KEY",
        "-----",
        "-----END",
        "é",
        ".",
        "-",
        ",",
    ]);
    let any = prop_oneof![4 => pieces.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(any, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn masking_again_changes_nothing(text in hostile_text()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
        let once = redact_url(&text);
        prop_assert_eq!(redact_url(&once), once);
    }

    #[test]
    fn a_password_never_leaves_a_url(
        password in "canary[ -~]{0,12}canary",
        scheme in "[a-z]{2,8}",
        user in "[a-z]{0,6}",
        tail in "[a-z0-9:/?&=.]{0,20}",
    ) {
        let url = format!("{scheme}://{user}:{password}@host{tail}");
        let redacted = redact_url(&url);
        prop_assert!(!redacted.contains("canary"), "{redacted}");
        let word = url.replace(' ', "");
        let redacted = redact(&format!("cannot connect to {word}: refused"));
        prop_assert!(!redacted.contains("canary"), "{redacted}");
    }

    #[test]
    fn a_value_never_stays_behind_its_name(
        name in prop::sample::select(vec!["password", "db_password", "API_KEY", "x-api-key", "client-secret", "authToken"]),
        gap in prop::sample::select(vec!["=", ": ", " = ", "\": \"", "=>", "='", ": Some(\"", "\t=\t"]),
        before in hostile_text(),
        value in "canary[!-~]{0,8}",
    ) {
        let text = format!("{} {name}{gap}{value}", before.replace(['"', '\''], " "));
        let redacted = redact(&text);
        prop_assert!(!redacted.contains("canary"), "{redacted}");
    }
}
