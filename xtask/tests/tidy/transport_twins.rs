//! Transports are twins: the same files and the same public names, so whoever has read one has read all.
//!
//! What only one of them has stands in the lists below, with its reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::repository::root;

/// What a transport has beside the others, or lacks.
struct Twin {
    /// The crate is `transport-NAME`, its types begin with `Name`.
    name: &'static str,
    /// Files of `src/` that only this one has.
    own_files: &'static [&'static str],
    /// Public names of the crate that only this one has: a name or, behind a `*`, how names end; and the reason.
    own_names: &'static [(&'static str, &'static str)],
    /// Whether it can be consumed from and read: `source.rs` and `transcript.rs`.
    consumed: bool,
}

const RECEIVED: &str = "an application receives webhooks itself, there is no broker to consume from";
const SIGNED: &str = "a webhook is trusted by its signature, there is no connection with a login";

const TWINS: &[Twin] = &[
    Twin {
        name: "amqp",
        own_files: &[],
        own_names: &[
            ("HeaderPrefix", "clients of AMQP do not agree on the names of CloudEvents attributes"),
            ("QueueType", "only quorum queues count deliveries, and the source must know"),
        ],
        consumed: true,
    },
    Twin { name: "kafka", own_files: &[], own_names: &[], consumed: true },
    Twin { name: "mqtt", own_files: &[], own_names: &[], consumed: true },
    Twin { name: "nats", own_files: &[], own_names: &[], consumed: true },
    Twin { name: "redis", own_files: &[], own_names: &[], consumed: true },
    Twin { name: "sqs", own_files: &[], own_names: &[], consumed: true },
    Twin {
        name: "http",
        // A webhook has no broker: the sender checks the address and signs, the receiver verifies.
        own_files: &[
            "address.rs",
            "endpoint.rs",
            "extractor.rs",
            "pool.rs",
            "receiver.rs",
            "resolver.rs",
            "retry_after.rs",
            "secret.rs",
            "signature.rs",
            "turns.rs",
            "verify.rs",
        ],
        own_names: &[
            (
                "*_DEFAULT",
                "the receiver's or the sender's limit, which the other side needs to choose its own",
            ),
            ("CONCURRENCY_MAX", "the configuration of the binary refuses more before a sink is made"),
            ("Receiver", RECEIVED),
            ("NotTaken", RECEIVED),
            ("VerifiedEvent", RECEIVED),
            ("Resolver", "an application may look up hosts in a way of its own"),
            ("SystemResolver", "an application may look up hosts in a way of its own"),
            ("Secret", SIGNED),
            ("Verifier", SIGNED),
            ("Verified", SIGNED),
            ("Unverified", SIGNED),
        ],
        consumed: false,
    },
];

const FILES: [&str; 6] = ["binding.rs", "connection.rs", "error.rs", "lib.rs", "options.rs", "sink.rs"];
const FILES_IF_CONSUMED: [&str; 2] = ["source.rs", "transcript.rs"];

impl Twin {
    fn source(&self) -> PathBuf {
        root().join(format!("crates/transport-{}/src", self.name))
    }

    /// A module's own file, whether it has children or not.
    fn read(&self, file: &str) -> String {
        let alone = self.source().join(file);
        let path = if alone.exists() { alone } else { alone.with_extension("").join("mod.rs") };
        fs::read_to_string(path).unwrap()
    }

    /// `AmqpSink` of `Sink`.
    fn named(&self, what: &str) -> String {
        let (first, rest) = self.name.split_at(1);
        format!("{}{rest}{what}", first.to_uppercase())
    }
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// The modules of a folder by the names that their files have without children.
fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() { format!("{name}.rs") } else { name }
    });
    named.collect()
}

/// The names that a crate root exports.
fn exported(root: &str) -> BTreeSet<String> {
    let exports = root.split("pub use ").skip(1).filter_map(|export| export.split_once(';'));
    let names = exports.flat_map(|(path, _)| match path.split_once('{') {
        Some((_, names)) => names.trim_end_matches('}').split(',').collect(),
        None => vec![path.rsplit("::").next().unwrap_or_default()],
    });
    names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The public functions of the `impl` blocks of a type.
pub(crate) fn functions(text: &str, of: &str) -> BTreeSet<String> {
    let begin = format!("\nimpl {of} {{\n");
    let blocks = text.split(&begin).skip(1).map(|rest| rest.split("\n}\n").next());
    let lines = blocks.flatten().flat_map(str::lines);
    let named = lines.filter_map(|line| line.strip_prefix("    pub fn ")?.split(['(', '<']).next());
    named.map(str::to_owned).collect()
}

/// Whether this is the name, or one that ends so.
fn is_named(own: &str, name: &str) -> bool {
    own.strip_prefix('*').map_or(name == own, |end| name.ends_with(end))
}

/// The transports by the folders of their crates.
fn crates() -> BTreeSet<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = folders.filter_map(|name| Some(name.to_str()?.strip_prefix("transport-")?.to_owned()));
    names.collect()
}

#[test]
fn every_transport_is_a_twin() {
    assert_eq!(
        crates(),
        set(TWINS.iter().map(|twin| twin.name)),
        "a crate without a line in TWINS, or the reverse"
    );
}

#[test]
fn transports_have_the_same_files() {
    for twin in TWINS {
        let mut expected = set(FILES);
        expected.extend(set(twin.own_files.iter().copied()));
        if twin.consumed {
            expected.extend(set(FILES_IF_CONSUMED));
        }
        assert_eq!(files(&twin.source()), expected, "transport-{}", twin.name);
    }
}

#[test]
fn transports_export_the_same_names() {
    for twin in TWINS {
        let mut expected = set(["Options"]);
        expected.insert(twin.named("Sink"));
        if twin.consumed {
            expected.extend([twin.named("Source"), twin.named("Transcript")]);
        }
        let found = exported(&twin.read("lib.rs"));
        let missing = &expected - &found;
        assert!(missing.is_empty(), "transport-{} has no {missing:?}", twin.name);
        let mut others = &found - &expected;
        for (own, reason) in twin.own_names {
            let before = others.len();
            others.retain(|name| !is_named(own, name));
            assert!(others.len() < before, "transport-{} has no {own} any more: {reason}", twin.name);
        }
        assert!(others.is_empty(), "only transport-{} has {others:?}, without a reason", twin.name);
    }
}

/// `new(url)`, or `with_options(options)` where the options were read from a URL.
#[test]
fn sinks_sources_and_transcripts_are_made_in_one_way() {
    for twin in TWINS {
        let made = |file: &str, what: &str| functions(&twin.read(file), &twin.named(what));
        let mut kinds = vec![("sink.rs", "Sink")];
        let mut read = vec!["of_sink"];
        if twin.consumed {
            kinds.extend([("source.rs", "Source"), ("transcript.rs", "Transcript")]);
            read.extend(["of_source", "of_transcript"]);
            assert!(made("transcript.rs", "Transcript").contains("of_sink"), "transport-{}", twin.name);
        }
        for (file, what) in kinds {
            let missing = &set(["new", "with_options"]) - &made(file, what);
            assert!(missing.is_empty(), "{} has no {missing:?}", twin.named(what));
        }
        let options = twin.read("options.rs");
        let mut reads = functions(&options, "Options");
        if options.contains("\nof_urls!(Options);\n") {
            reads.extend(set(["of_sink", "of_source", "of_transcript"]));
        }
        let missing = &set(read) - &reads;
        assert!(missing.is_empty(), "the options of transport-{} have no {missing:?}", twin.name);
    }
}
