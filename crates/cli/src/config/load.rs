//! Reading the file: parse, expand, check, and say where it is wrong.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::Config;
use super::expand::{FILE, expand};
use super::mark::Marks;
use super::secret::{has_literal_secret, readable_by_others};
use crate::fault::Fault;

/// The largest file that a text of the configuration may name, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A configuration, and what should be said about its file.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What the file says.
    pub(crate) config: Config,
    /// What will hurt.
    pub(crate) warnings: Vec<String>,
}

/// Reads a configuration file.
pub(crate) fn load(path: &Path) -> Result<Loaded, Fault> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Fault::usage(format!("cannot read the configuration {}: {error}", path.display()))
    })?;
    let loaded = parse(&path.display().to_string(), &text, &look_up)?;
    Ok(match loaded {
        (config, true) if readable_by_others(path) => Loaded {
            config,
            warnings: vec![format!(
                "{0} contains a secret, and other users can read the file. Write ${{VAR}} instead of the \
                 secret, or run `chmod 600 {0}`",
                path.display()
            )],
        },
        (config, _) => Loaded { config, warnings: Vec::new() },
    })
}

/// The value of an environment variable, or the text of a file without the line break at its end.
fn look_up(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix(FILE) else { return std::env::var(name).ok() };
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    let is_whole = u64::try_from(text.len()).is_ok_and(|bytes| bytes <= FILE_BYTES_MAX);
    is_whole.then(|| text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The configuration, and whether a secret stands in the text itself.
fn parse(file: &str, text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(Config, bool), Fault> {
    let wrong = |error: &toml::de::Error| located(file, text, error);
    let mut table = DeTable::parse(text).map_err(|error| wrong(&error))?;
    let secret = has_literal_secret(table.get_ref());
    expand_table(table.get_mut(), &mut Vec::new(), lookup).map_err(|(span, key, error)| {
        Fault::usage(format!("{file}:{}: {key}: {error}", line_of(text, span.start)))
    })?;
    let marks = toml::Table::deserialize(Deserializer::from(table.clone())).map(|table| Marks::of(&table));
    let mut config = Config::deserialize(Deserializer::from(table)).map_err(|error| wrong(&error))?;
    config.marks = marks.map_err(|error| wrong(&error))?;
    Ok((config, secret))
}

type Misplaced = (std::ops::Range<usize>, String, super::expand::ExpandError);

fn expand_table(
    table: &mut DeTable<'_>,
    path: &mut Vec<String>,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Misplaced> {
    for (key, value) in table.iter_mut() {
        path.push(key.get_ref().to_string());
        expand_value(value, path, lookup)?;
        path.pop();
    }
    Ok(())
}

fn expand_value(
    value: &mut Spanned<DeValue<'_>>,
    path: &mut Vec<String>,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Misplaced> {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) => {
            let expanded = expand(text, lookup).map_err(|error| (span, path.join("."), error))?;
            *text = Cow::Owned(expanded);
            Ok(())
        }
        DeValue::Array(items) => items.iter_mut().try_for_each(|item| expand_value(item, path, lookup)),
        DeValue::Table(table) => expand_table(table, path, lookup),
        _ => Ok(()),
    }
}

// `file:line: key: what is wrong`, in the form that editors jump to.
fn located(file: &str, text: &str, error: &toml::de::Error) -> Fault {
    let line = error.span().map(|span| format!(":{}", line_of(text, span.start))).unwrap_or_default();
    let key = key_of(error).map(|key| format!(" {key}:")).unwrap_or_default();
    Fault::usage(format!("{file}{line}:{key} {}", error.message().trim()))
}

// The path of keys is only in the error's text, as its last line, and only without the input.
fn key_of(error: &toml::de::Error) -> Option<String> {
    let mut error = error.clone();
    error.set_input(None);
    let shown = error.to_string();
    let key = shown.trim_end().lines().last()?.strip_prefix("in `")?.strip_suffix('`')?;
    Some(key.to_owned())
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, refused_with: &[&str]) {
        let fault = parse("p.toml", text, &|_| None).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        for part in refused_with {
            assert!(
                fault.message().unwrap().contains(part),
                "{part:?} is not in: {}",
                fault.message().unwrap()
            );
        }
    }

    fn route(line: &str) -> String {
        format!("[routes.orders]\nto = \"null:\"\n{line}\n")
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_what_is_allowed() {
        check("[databse]\nurl = 'x'", &["p.toml:1:", "databse", "`database`", "`routes`"]);
        check("[database]\nport = 1", &["p.toml:2: database:", "`port`", "`url`", "`prefix`"]);
        check(&route("retries = 3"), &["p.toml:3: routes.orders:", "`retries`", "`max_attempts`"]);
        check(&route("backoff = { bse = \"1s\" }"), &["p.toml:3: routes.orders.backoff:", "`bse`", "`base`"]);
    }

    #[test]
    fn a_missing_variable_is_named() {
        check("\n[database]\nurl = \"${GONE}\"", &["p.toml:3: database.url:", "variable GONE is not set"]);
        check(&route("lease = \"${LEASE\""), &["p.toml:3: routes.orders.lease:", "${NAME}"]);
    }

    #[test]
    fn a_file_is_read_without_the_line_break_at_its_end_and_only_if_it_is_small() {
        let text = look_up(concat!("file:", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        assert!(text.starts_with("[package]") && !text.ends_with('\n'), "{text}");
        assert_eq!(look_up(concat!("file:", env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")), None);
        assert_eq!(look_up("file:/nowhere/token"), None);
        check("[admin]\ntoken = \"${file:/nowhere/token}\"", &["p.toml:2: admin.token:", "cannot be read"]);
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_key() {
        check(&route("batch = 0"), &["p.toml:3: routes.orders.batch:", "1 to 10000"]);
        check(&route("max_attempts = 0"), &["routes.orders.max_attempts:", "1 to 1000000"]);
        check(&route("max_attempts = -1"), &["routes.orders.max_attempts:", "-1 is out of range"]);
        check(&route("lease = \"0s\""), &["p.toml:3: routes.orders.lease:", "longer than zero"]);
        check(&route("lease = \"25h\""), &["routes.orders", "lease"]);
        check(&route("lease = \"-5s\""), &["p.toml:3: routes.orders.lease:"]);
        check(&route("lease = \"soon\""), &["p.toml:3: routes.orders.lease:"]);
        check(&route("lease = 30"), &["p.toml:3: routes.orders.lease:", "\"30s\""]);
        check(&route("backoff = { base = \"5m\", max = \"1s\" }"), &["p.toml:3: routes.orders.backoff:"]);
        check("[database]\nprefix = \"a-b\"", &["p.toml:2: database.prefix:"]);
    }

    #[test]
    fn a_destination_is_checked_when_loaded() {
        check("[routes.a]\nto = \"ftp://x\"", &["p.toml:2: routes.a.to:", "file:", "stdout:", "null:"]);
        check(
            "[routes.a]\nto = \"pulsar://r/q\"",
            &["p.toml:2: routes.a.to:", "unknown destination scheme \"pulsar\""],
        );
        check("[routes.a]\nbatch = 5", &["p.toml:1: routes.a:", "`to`"]);
        check("[routes.a]\nto = \"http://127.0.0.1/hook\"", &["p.toml:1: routes.a:", "allow_private"]);
        check(
            "[routes.a]\nto = \"https://example.org/\"\nsecret = \"canary\"",
            &["routes.a.secret", "whsec_"],
        );
    }

    #[test]
    fn what_concerns_order_is_checked_when_loaded() {
        check(&route("order = \"random\""), &["p.toml:3: routes.orders.order:", "write \"key\" or \"none\""]);
        check(&route("order = \"key\"\nrelays_max = 65"), &["routes.orders.relays_max:", "1 to 64"]);
        check(
            &route("order = \"key\"\non_dead = \"wait\""),
            &["routes.orders.on_dead:", "write \"block\" or \"skip\""],
        );
        for setting in ["relays_max = 4", "in_flight_per_key = 4", "on_dead = \"skip\""] {
            let name = setting.split(' ').next().unwrap();
            let named = format!("{name} needs order = \"key\"");
            check(&route(setting), &["routes.orders:", &named]);
        }
        check(&route("order = \"key\"\nin_flight_per_key = 0"), &["in_flight_per_key:", "1 to 10000"]);
        check(&route("order = \"key\"\ncausal_order = true"), &["routes.orders:", "cannot be used together"]);
    }

    #[test]
    fn a_changed_route_is_told_from_one_that_only_moved() {
        let marks = |text: &str| parse("p.toml", text, &|_| Some("x".into())).unwrap().0.marks;
        let name = |route: &str| pillarbox_core::RouteName::new(route).unwrap();
        let before = marks("[routes.a]\nto = \"null:\"\n[routes.b]\nto = \"null:\"\nbatch = 5");
        let after =
            marks("# moved\n[routes.b]\nbatch = 6\nto = \"null:\"\n[routes.a]\nto = \"null:\" # same\n");
        assert_eq!(before.route(&name("a")), after.route(&name("a")));
        assert_ne!(before.route(&name("b")), after.route(&name("b")));
        assert_eq!(after.route(&name("c")), None);
        assert!(!before.differs_in(&after, "database"));
        assert!(marks("[database]\nurl = \"${U}\"").differs_in(&after, "database"));
    }

    #[test]
    fn the_format_of_the_log_is_one_of_two() {
        check("[log]\nformat = \"xml\"", &["p.toml:2: log.format:", "write \"human\" or \"json\""]);
    }

    #[test]
    fn traces_go_to_a_url_in_one_of_two_relations() {
        check(
            "[trace]\nrelation = \"child\"",
            &["p.toml:2: trace.relation:", "write \"link\" or \"parent\""],
        );
        for endpoint in ["localhost:4318", "grpc://localhost:4317", "http://", "http://host/?x=1"] {
            let text = format!("[trace]\nendpoint = \"{endpoint}\"");
            check(&text, &["p.toml:2: trace.endpoint:", "OTLP"]);
        }
        let fault = parse("p.toml", "[trace]\nendpoint = \"http://ana:canary@host\"", &|_| None).unwrap_err();
        let told = fault.message().unwrap();
        assert!(told.contains("OTEL_EXPORTER_OTLP_HEADERS") && !told.contains("canary"), "{told}");
    }

    #[test]
    fn broken_toml_is_located() {
        check("[database]\nurl = ", &["p.toml:2:"]);
    }

    #[test]
    fn variables_are_expanded_and_cannot_change_the_structure() {
        let lookup = |_: &str| Some("x\"\n[admin]".to_owned());
        let (config, secret) = parse("p.toml", "[database]\nurl = \"${U}\"", &lookup).unwrap();
        assert_eq!(config.database.url.as_deref(), Some("x\"\n[admin]"));
        assert!(!secret);
        assert!(config.admin.is_none());
    }
}
