//! Every key of the file, with its default, its unit and what it does: the guide's page is made of this.
//!
//! The defaults come from where they are decided, and a test compares the keys with those that the parser takes.

use std::fmt::Write as _;

use pillarbox_core::health::{MAX_AGE_DEFAULT, ProblemKind, UNRELAYED_AFTER_DEFAULT};
use pillarbox_core::{Backoff, Ident, Jitter, format_duration};
use pillarbox_engine::RelayOptions;

use super::{
    DATABASE_DEFAULT, LISTEN_DEFAULT, RETENTION_DELIVERED, RETENTION_INBOX, RETENTION_SAGAS, TraceRelation,
};
use crate::checkup::Limits;
use crate::destination::PORTS_DEFAULT;

/// One table of the file.
struct Section {
    /// Its name as it stands in the file.
    name: &'static str,
    about: &'static str,
    settings: Vec<Setting>,
}

/// One key.
struct Setting {
    key: &'static str,
    /// What may stand behind it, with its unit.
    value: &'static str,
    default: String,
    what: &'static str,
}

fn setting(key: &'static str, value: &'static str, default: impl ToString, what: &'static str) -> Setting {
    Setting { key, value, default: default.to_string(), what }
}

const HEAD: &str = "\
# Configuration

The configuration is `pillarbox.toml` in the current folder, or the file that `--config FILE` names.
A key that is not on this page is refused. The error names the file, the line and the allowed keys.
`pillarbox config check` checks the file, and `pillarbox config show` prints the configuration in
effect.

In a text, `${NAME}` is replaced by that environment variable, and `${file:PATH}` by what that file
contains, without the line break at its end. So a secret can come from a variable, from a mounted
secret, or from a credential of systemd. `$${` is a literal `${`.

A *duration* is a number and a unit in quotes: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"12h\"`, `\"1d\"`.

`pillarbox config reference` prints this page; a test compares the two.
";

/// The page, in Markdown.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for section in sections() {
        // Writing to a text cannot fail.
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", section.name, section.about);
        page.push_str("| key | value | default | what it does |\n|---|---|---|---|\n");
        for Setting { key, value, default, what } in section.settings {
            let _ = writeln!(page, "| `{key}` | {value} | {default} | {what} |");
        }
    }
    page
}

fn sections() -> Vec<Section> {
    vec![
        Section {
            name: "[database]",
            about: "Where the tables are. `--database URL` on the command line replaces `url`.",
            settings: database(),
        },
        Section {
            name: "[routes.NAME]",
            about: "One route: where it delivers to, and how. Only `to` is needed.",
            settings: routes(),
        },
        Section {
            name: "backoff = { … }",
            about: "The wait of a route after a failed attempt, `min(base * multiplier^(attempts - 1), max)`.",
            settings: backoff(),
        },
        Section {
            name: "[retention]",
            about: "How long finished entries, inbox rows and sagas are kept. Dead entries and audit records are\n\
                    never purged by age.",
            settings: retention(),
        },
        Section {
            name: "[log]",
            about: "How the process tells of its work on stderr. `PILLARBOX_LOG` of the environment says how much it\n\
                    tells.",
            settings: vec![setting(
                "format",
                "`\"human\"`, `\"json\"`",
                "`\"human\"`",
                "lines for people, or one JSON object per line with `time`, `level`, `message` and the fields",
            )],
        },
        Section {
            name: "[trace]",
            about: "[Traces](traces.md) of `stage`, `relay` and `consume`, as OTLP over HTTP. They are off without an\n\
                    endpoint. The variables of OpenTelemetry's SDK count as well.",
            settings: trace(),
        },
        Section {
            name: "[admin]",
            about: "The [page, the API and health](dashboard.md). `pillarbox relay` serves them if `listen` is set,\n\
                    and `pillarbox dashboard` serves them alone.",
            settings: admin(),
        },
    ]
}

fn database() -> Vec<Setting> {
    let url = format!("`DATABASE_URL` of the environment, else `{DATABASE_DEFAULT}`");
    let prefix = format!("`{}`", Ident::default().as_str());
    vec![
        setting(
            "url",
            "URL",
            url,
            "the database: `sqlite://FILE`, `postgres://USER@HOST/NAME`, `mysql://USER@HOST/NAME`, `mariadb://USER@HOST/NAME` or `mongodb://HOST/NAME`",
        ),
        setting("prefix", "name", prefix, "the beginning of the table names"),
        setting(
            "schema",
            "name",
            "`public`",
            "the schema of the tables, on PostgreSQL; it must already exist",
        ),
        setting(
            "insecure",
            "`true`, `false`",
            "`false`",
            "allow an unencrypted connection to a database on another machine",
        ),
    ]
}

fn routes() -> Vec<Setting> {
    let options = RelayOptions::default();
    let time = |duration| format!("`\"{}\"`", format_duration(duration));
    let number = |number: u32| format!("`{number}`");
    let (truth, none) = ("`true`, `false`", "none");
    let to = "the destination: `file:PATH`, `stdout:`, `null:`, or the URL of [RabbitMQ](rabbitmq.md), [Kafka](kafka.md), \
        [MQTT](mqtt.md), [NATS](nats.md), [Redis](redis.md), [SQS](sqs.md) or a [webhook](webhooks.md)";
    let order = "`\"key\"`: entries of one key are delivered [in order](order.md)";
    let on_dead = "what happens to the other entries of its key when an entry is dead: they wait for an operator, or are delivered. Only with `order = \"key\"`";
    let relays = "how many relays can share the route; further relays stand by. Only with `order = \"key\"`";
    let per_key = "how many entries of one key can be under way together, at a destination that takes one entry after the other. \
        With more than 1, [the order of a key is no longer promised](order.md#one-hot-key). Only with `order = \"key\"`";
    let lease = "how long a claim protects an entry; renewed during a delivery. When it ends, the entries of a killed relay are \
        delivered by another relay";
    let publish = "how long one delivery may take; after that its outcome counts as unknown. Webhooks have their own timeout";
    let causal = "claim by clock stamp instead of staging order. Not with `order = \"key\"`";
    let private = "allow a webhook at a private or loopback address, on any port, without TLS";
    let ports = format!("`{PORTS_DEFAULT:?}`");
    let secret = "the key or keys that sign webhooks, `whsec_…`; several while you change keys";
    vec![
        setting("to", "URL", none, to),
        setting("order", "`\"none\"`, `\"key\"`", "`\"none\"`", order),
        setting("on_dead", "`\"block\"`, `\"skip\"`", "`\"block\"`", on_dead),
        setting("relays_max", "1 to 64", number(options.relays_max.into()), relays),
        setting("in_flight_per_key", "1 to 10000", number(options.in_flight_per_key), per_key),
        setting(
            "max_attempts",
            "1 to 1000000",
            number(options.max_attempts),
            "attempts before an entry is dead",
        ),
        setting("backoff", "table", "see below", "the wait between attempts"),
        setting("lease", "duration, up to 24h", time(options.lease), lease),
        setting("batch", "1 to 10000", number(options.batch), "the largest number of entries of one claim"),
        setting(
            "in_flight_max",
            "1 to 1000000",
            number(options.in_flight_max),
            "the largest number of entries claimed and not settled; at least `batch`",
        ),
        setting("publish_timeout", "duration", options.publish_timeout.map_or(none.into(), time), publish),
        setting(
            "grace",
            "duration, also 0",
            time(options.grace),
            "how long deliveries may continue after a stop was requested",
        ),
        setting("poll_min", "duration", time(options.poll_min), "the shortest wait after an empty claim"),
        setting("poll_max", "duration", time(options.poll_max), "the longest wait after empty claims"),
        setting(
            "reap_interval",
            "duration",
            time(options.reap_interval),
            "how often the relay looks for expired leases",
        ),
        setting("causal_order", truth, "`false`", causal),
        setting("allow_private", truth, "`false`", private),
        setting("allow_http", truth, "`false`", "allow a webhook over `http://` to the public internet"),
        setting("ports", "list of 1 to 65535", ports, "the ports that the URL of a webhook may have"),
        setting("secret", "text or list of texts", "none: unsigned", secret),
    ]
}

fn backoff() -> Vec<Setting> {
    let default = Backoff::BROKER;
    let time = |duration| format!("`\"{}\"`", format_duration(duration));
    let jitter = format!("`{}`", default.jitter() == Jitter::Full);
    let what =
        "wait a random part of the time, so that entries that failed together are not retried together";
    vec![
        setting("base", "duration", time(default.base()), "the wait after the first attempt"),
        setting("max", "duration", time(default.max()), "the longest wait"),
        setting(
            "multiplier",
            "1 to 100, also 1.5",
            format!("`{}`", default.multiplier()),
            "how many times longer each wait is",
        ),
        setting("jitter", "`true`, `false`", jitter, what),
    ]
}

fn retention() -> Vec<Setting> {
    let time = |duration| format!("`\"{}\"`", format_duration(duration));
    let delivered = "delivered and discarded entries; `\"0s\"` deletes them when they are settled";
    let inbox = "rows of the inbox; an event that arrives again after its row was deleted is applied again";
    vec![
        setting("delivered", "duration, also 0", time(RETENTION_DELIVERED), delivered),
        setting("inbox", "duration", time(RETENTION_INBOX), inbox),
        setting(
            "sagas",
            "duration, also 0",
            time(RETENTION_SAGAS),
            "sagas that completed, were compensated or were abandoned",
        ),
    ]
}

fn trace() -> Vec<Setting> {
    vec![
        setting(
            "endpoint",
            "URL",
            "`OTEL_EXPORTER_OTLP_ENDPOINT` of the environment, else none",
            "the base URL of the receiver, such as `http://localhost:4318`; `/v1/traces` is added",
        ),
        setting(
            "relation",
            "`\"link\"`, `\"parent\"`",
            format!("`\"{}\"`", TraceRelation::default().as_str()),
            "how `consume` ties its spans to the stored context: by a link from a trace of its own, or as a child in \
             the same trace",
        ),
    ]
}

fn admin() -> Vec<Setting> {
    let truth = "`true`, `false`";
    let unready = ProblemKind::STOPPING.map(|kind| format!("`\"{kind}\"`")).join(", ");
    let causes = "the problems for which `/readyz` answers 503. The others are `\"stuck_sagas\"`, `\"dead\"` and `\"paused\"`";
    let listen = "the address and port to serve on. Beyond the loopback address, a token and `behind_proxy` are needed";
    vec![
        setting(
            "listen",
            "address and port",
            format!("none; `dashboard` takes `\"{LISTEN_DEFAULT}\"`"),
            listen,
        ),
        setting("token", "32 to 512 characters", "none", "the token of operators, who may look and act"),
        setting("viewer_token", "32 to 512 characters", "none", "the token of viewers, who may only look"),
        setting(
            "allow_actions",
            truth,
            "`false`",
            "without a token, let everybody who reaches the server act",
        ),
        setting(
            "behind_proxy",
            truth,
            "`false`",
            "a reverse proxy in front of the server brings TLS, and appends the client's address to `X-Forwarded-For`",
        ),
        setting(
            "prefix",
            "path",
            "empty",
            "the path under which a reverse proxy serves the page, such as `/pillarbox`",
        ),
        setting(
            "hosts",
            "list of names",
            "none",
            "names that clients may ask for, besides `localhost` and addresses",
        ),
        setting("unready", "list of problems", unready, causes),
        setting(
            "max_age",
            "duration",
            format!("`\"{}\"`", format_duration(MAX_AGE_DEFAULT)),
            "the longest wait of a due entry that is in order",
        ),
        setting(
            "unrelayed_after",
            "duration",
            format!("`\"{}\"`", format_duration(UNRELAYED_AFTER_DEFAULT)),
            "the longest wait of a due entry of a configured route while no relay of it runs, for `/readyz` and `status --check`",
        ),
        setting(
            "max_transaction_age",
            "duration",
            format!("`\"{}\"`", format_duration(Limits::default().transaction_age)),
            "the longest time that a transaction of the database may be open, for the doctor",
        ),
        setting(
            "trace_url",
            "URL with `{trace_id}`",
            "none",
            "where traces are shown, such as `\"https://traces.example.com/trace/{trace_id}\"`; an event's story links \
             to the trace that staged it",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// The keys that the parser names when it meets one that it does not know.
    fn taken(text: &str) -> Vec<String> {
        let error = toml::from_str::<Config>(text).unwrap_err().to_string();
        let expected = error.split_once("expected one of ").or_else(|| error.split_once("expected "));
        let (_, expected) = expected.unwrap_or_else(|| panic!("{error}"));
        expected.lines().next().unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn check(section: &str, text: &str) {
        let sections = sections();
        let section = sections.iter().find(|one| one.name == section).unwrap();
        let mut told: Vec<_> = section.settings.iter().map(|setting| setting.key.to_owned()).collect();
        let mut taken = taken(text);
        told.sort();
        taken.sort();
        assert_eq!(told, taken, "{}", section.name);
    }

    #[test]
    fn the_page_has_every_key_that_the_parser_takes_and_no_other() {
        check("[database]", "[database]\nno_such_key = 1");
        check("[routes.NAME]", "[routes.r]\nto = 'null:'\nno_such_key = 1");
        check("backoff = { … }", "[routes.r]\nto = 'null:'\nbackoff = { no_such_key = 1 }");
        check("[retention]", "[retention]\nno_such_key = 1");
        check("[log]", "[log]\nno_such_key = 1");
        check("[trace]", "[trace]\nno_such_key = 1");
        check("[admin]", "[admin]\nno_such_key = 1");
        assert_eq!(taken("[no_such_table]"), ["database", "routes", "retention", "log", "trace", "admin"]);
    }
}
