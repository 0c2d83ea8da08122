//! Stores are twins: the same files and the same public items, so whoever has read one has read all.

use std::collections::{BTreeMap, BTreeSet};

use crate::face::is_listed;
use crate::repository::files;

/// What only some stores have, and why.
struct Own {
    /// Names, or how names begin with a `*` behind it. A name is in all of the stores; what begins so is in some of
    /// them, and in no other store.
    items: &'static [&'static str],
    stores: &'static [&'static str],
    reason: &'static str,
}

const fn own(items: &'static [&'static str], stores: &'static [&'static str], reason: &'static str) -> Own {
    Own { items, stores, reason }
}

const POSTGRES: &[&str] = &["store-postgres"];
const MONGODB: &[&str] = &["store-mongodb"];
const SQL: &[&str] = &["store-mysql", "store-postgres", "store-sqlite"];
const SERVERS: &[&str] = &["store-mongodb", "store-mysql", "store-postgres"];
const SQLITE: &[&str] = &["store-sqlite"];

const OWN_DRIVER: &str = "MongoDB has one driver, and each driver of the others has its own databases";
const NO_SQL: &str = "MongoDB has commands in the place of statements, and a client in the place of a pool";

/// Files that differ. What is under `lanes/` differs as a whole: how a store tells what of a lane is safe to
/// hand out is its own.
const FILES: [Own; 10] = [
    own(&["bind.rs", "sql.rs", "statement.rs"], SQL, NO_SQL),
    own(&["command.rs"], MONGODB, NO_SQL),
    own(&["layout.rs"], MONGODB, "without SQL, collections, validators and indexes are code"),
    own(
        &["adopt.rs"],
        MONGODB,
        "a document has no defaults, so what plain inserts leave out is filled in later",
    ),
    own(&["abandoned.rs"], MONGODB, "only there a transaction outlives its connection"),
    own(&["driver/*"], SQL, OWN_DRIVER),
    own(
        &["front.rs"],
        &["store-mongodb", "store-mysql"],
        "there the oldest entries that wait come from several looks; PostgreSQL and SQLite find them in one statement",
    ),
    own(
        &["floor.rs"],
        POSTGRES,
        "a held transaction makes claims from the start of an index slow on PostgreSQL",
    ),
    own(&["lean.rs"], POSTGRES, "PostgreSQL stages the common event with fewer values and casts"),
    own(
        &["file.rs", "patience.rs"],
        SQLITE,
        "only a file can be replaced while it is open, and only SQLite's driver wakes the caller for each row",
    ),
];

/// Public items that differ.
const ITEMS: [Own; 9] = [
    own(&["Param", "Statement", "statements", "Store::pool"], SQL, NO_SQL),
    own(&["Outbox::document", "Store::client"], MONGODB, NO_SQL),
    own(&["Store::database", "Options::database"], MONGODB, "a session of MongoDB is of no database"),
    own(&["Transaction"], SQL, OWN_DRIVER),
    own(
        &["Mode*", "Options::mode", "Store::mode"],
        POSTGRES,
        "only its poolers give each transaction another connection",
    ),
    own(
        &["Options::schema", "Options::create_schema"],
        POSTGRES,
        "only PostgreSQL has schemas within a database",
    ),
    own(
        &[
            "Options::insecure",
            "Options::connect_timeout",
            "Options::acquire_timeout",
            "Options::statement_timeout",
            "Options::lock_timeout",
            "Options::connections",
        ],
        SERVERS,
        "a server has connections, timeouts and encryption",
    ),
    own(&["Options::busy_timeout"], SQLITE, "a file has one writer, and others wait for it"),
    own(&["app_pool"], SQLITE, "a pool on a file needs pragmas to be as durable as the application expects"),
];

/// What each store has, by the name of its crate.
type Stores = BTreeMap<String, BTreeSet<String>>;

/// Everything that one store has and another has not, and every exception that is none.
fn differences(stores: &Stores, exceptions: &[Own]) -> Vec<String> {
    let mut found = Vec::new();
    let all: BTreeSet<&String> = stores.values().flatten().collect();
    for item in &all {
        let of: Vec<&str> =
            stores.iter().filter(|(_, has)| has.contains(*item)).map(|(of, _)| &**of).collect();
        let mut rules = exceptions.iter().flat_map(|own| own.items.iter().map(move |pattern| (pattern, own)));
        match rules.find(|(pattern, _)| is_named(pattern, item)) {
            Some((_, own)) if of == own.stores => {}
            Some((pattern, own)) if pattern.ends_with('*') && of.iter().all(|of| own.stores.contains(of)) => {
            }
            Some((_, own)) => {
                found.push(format!("{item} is in {of:?}, but {:?} may have it: {}", own.stores, own.reason))
            }
            None if of.len() == stores.len() => {}
            None => found.push(format!("{item} is in {of:?} only: its twins need it, or it moves up")),
        }
    }
    let patterns = exceptions.iter().flat_map(|own| own.items);
    let is_none = |pattern: &&&str| !all.iter().any(|item| is_named(pattern, item));
    found.extend(patterns.filter(is_none).map(|pattern| format!("{pattern} is in no store any more")));
    found
}

/// Whether this is the name, or how it begins.
fn is_named(pattern: &str, item: &str) -> bool {
    pattern.strip_suffix('*').map_or(item == pattern, |begin| item.starts_with(begin))
}

/// The files and the public items of every store.
fn stores() -> (Stores, Stores) {
    let (mut modules, mut items) = (Stores::new(), Stores::new());
    for file in files() {
        let Some((store, path)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if !store.starts_with("store-") || !path.ends_with(".rs") {
            continue;
        }
        let modules = modules.entry(store.to_owned()).or_default();
        if !path.starts_with("lanes/") {
            modules.insert(path.to_owned());
        }
        let exports = if path == "lib.rs" { exports(&file.text) } else { members(&file.text) };
        items.entry(store.to_owned()).or_default().extend(exports);
    }
    assert!(modules.len() > 1, "there are no stores");
    (modules, items)
}

/// A store's type is called after its database.
fn twin_name(name: &str) -> &str {
    if name.ends_with("Store") { "Store" } else { name }
}

/// The names that `lib.rs` re-exports.
fn exports(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pub use ")?.strip_suffix(';'));
    let names = lines
        .flat_map(|path| path.rsplit("::").next().unwrap_or_default().trim_matches(['{', '}']).split(','));
    names.map(|name| twin_name(name.trim()).to_owned()).collect()
}

/// Public methods and fields as `Type::name`, and the macros that write some.
fn members(text: &str) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    let mut of = None;
    for line in text.lines() {
        let begins = ["impl ", "    impl ", "pub struct "];
        if let Some(name) = begins.iter().find_map(|begin| line.strip_prefix(begin)) {
            // An implementation of a port adds no name.
            of = name.strip_suffix(" {").filter(|name| !name.contains(' ')).map(twin_name);
        } else if line.starts_with("outbox!") || line.starts_with("saga_hooks!") {
            members.extend(line.split_inclusive('!').next().map(ToOwned::to_owned));
        } else if let (Some(of), Some(item)) = (of, line.strip_prefix("    pub ")) {
            let item =
                item.trim_start_matches("async ").trim_start_matches("const ").trim_start_matches("fn ");
            let name: String = item.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            members.insert(format!("{of}::{name}"));
        } else if let Some(of) = of.filter(|_| is_listed(line)) {
            members.insert(format!("{of}::{}", line.trim().trim_end_matches(';')));
        }
    }
    members
}

#[test]
fn every_store_has_the_same_files() {
    let differences = differences(&stores().0, &FILES);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_store_has_the_same_public_items() {
    let (_, items) = stores();
    for (store, items) in &items {
        for item in ["Store", "Store::begin", "Store::migrate", "Outbox::stage", "Options::prefix", "outbox!"]
        {
            assert!(items.contains(item), "{item} is not found in {store}: {items:?}");
        }
    }
    let differences = differences(&items, &ITEMS);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_file_or_item_of_one_store_only_is_found() {
    let store = |name: &str, has: &[&str]| (name.to_owned(), has.iter().map(ToString::to_string).collect());
    let twins = |other: &[&str]| Stores::from([store("store-a", &["one.rs"]), store("store-b", other)]);
    assert!(differences(&twins(&["one.rs"]), &[]).is_empty());
    assert_eq!(differences(&twins(&["one.rs", "two.rs"]), &[]).len(), 1);
    assert_eq!(differences(&twins(&[]), &[]).len(), 1);
    let only_b = [own(&["two.rs"], &["store-b"], "because")];
    assert!(differences(&twins(&["one.rs", "two.rs"]), &only_b).is_empty());
    assert_eq!(differences(&twins(&["one.rs"]), &only_b), ["two.rs is in no store any more"]);
    let by_prefix = |stores| [own(&["two*"], stores, "because")];
    assert!(differences(&twins(&["one.rs", "two.rs"]), &by_prefix(&["store-b"])).is_empty());
    assert!(differences(&twins(&["one.rs", "two.rs"]), &by_prefix(&["store-b", "store-c"])).is_empty());
    assert_eq!(differences(&twins(&["one.rs", "two.rs"]), &by_prefix(&["store-a"])).len(), 1);
}

#[test]
fn names_are_read_from_the_text() {
    let exports = exports("mod a;\npub use a::{Mode, Options};\npub use store::MySqlStore;\n");
    assert_eq!(exports, ["Mode", "Options", "Store"].map(String::from).into());
    let text = "impl MySqlStore {\n    pub async fn begin(&self) {}\n    pub(crate) fn not(&self) {}\n}\n\
                impl Store for MySqlStore {\n    pub fn no(&self) {}\n}\n\
                pub struct Options {\n    pub prefix: Ident,\n}\nsaga_hooks!(Sagas, Tx);\n\
                outbox_calls! {\n    impl Outbox {\n        /// Words.\n        stage;\n    }\n}\n";
    let found = ["Options::prefix", "Outbox::stage", "Store::begin", "saga_hooks!"];
    assert_eq!(members(text), found.map(String::from).into());
}
