//! Options are set in one way: every public field of an options struct has a setter of its name.

use std::collections::BTreeSet;

use crate::repository::{File, files, published};
use crate::transport_twins::functions;

/// Fields whose setter has another name: they hold several, or are read from a text.
const RENAMED: [(&str, &str, &str); 2] =
    [("transport-http", "secrets", "secret"), ("transport-http", "authorities", "authorities_pem")];

/// The names of the public options structs of a file.
fn structs(text: &str) -> impl Iterator<Item = &str> {
    let names = text.lines().filter_map(|line| line.strip_prefix("pub struct ")?.strip_suffix(" {"));
    names.filter(|name| name.ends_with("Options"))
}

/// What stands behind a line, up to the end of its block.
fn block<'a>(text: &'a str, line: &str) -> &'a str {
    let block = text.split_once(&format!("\n{line}\n")).and_then(|(_, rest)| rest.split("\n}").next());
    block.unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The public fields of a struct.
fn fields(text: &str, of: &str) -> BTreeSet<String> {
    let lines = block(text, &format!("pub struct {of} {{")).lines();
    let names = lines.filter_map(|line| Some(line.strip_prefix("    pub ")?.split_once(": ")?.0));
    names.filter(|name| is_name(name)).map(str::to_owned).collect()
}

/// The setters of a struct: its functions, and those that are made from a list.
fn setters(text: &str, of: &str) -> BTreeSet<String> {
    let mut setters = functions(text, of);
    for list in text.split("setters! {\n").skip(1) {
        let Some(list) = list.trim_start().strip_prefix(&format!("impl {of} {{\n")) else { continue };
        let lines = list.split("\n}").next().unwrap_or_default().lines();
        let names = lines.filter(|line| line.ends_with(';')).filter_map(|line| line.trim().split_once(": "));
        setters.extend(names.map(|(name, _)| name.to_owned()));
    }
    setters
}

/// The fields that have no setter, of the files of these crates. Also how many structs were looked at.
fn without_setter(files: &[File], crates: &BTreeSet<String>) -> (Vec<String>, usize) {
    let (mut missing, mut looked_at) = (Vec::new(), 0);
    for file in files {
        let Some((of, _)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if !crates.contains(of) || !file.path.ends_with(".rs") {
            continue;
        }
        for name in structs(&file.text) {
            looked_at += 1;
            let setters = setters(&file.text, name);
            for field in fields(&file.text, name) {
                let renamed = RENAMED.iter().find(|(krate, known, _)| *krate == of && *known == field);
                let setter = renamed.map_or(field.as_str(), |(_, _, setter)| setter);
                if !setters.contains(setter) {
                    missing.push(format!("{}: {name}::{field} has no setter {setter}", file.path));
                }
            }
        }
    }
    (missing, looked_at)
}

#[test]
fn every_option_has_a_setter() {
    let (missing, looked_at) = without_setter(&files(), &published());
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    // Of seven transports and four stores, of a relay, a consumer and retention, and of a dashboard.
    assert!(looked_at >= 15, "only {looked_at} options structs were found");
}

#[test]
fn a_field_without_a_setter_is_found() {
    let text = "\n/// Words.\npub struct Options {\n    /// Words.\n    pub set: u8,\n    pub listed: u8,\n    pub bare: u8,\n\
                \x20   hidden: u8,\n}\n\nsetters! {\n    impl Options {\n        /// Words.\n        listed: u8;\n    }\n}\n\n\
                impl Options {\n    pub fn set(mut self, set: u8) -> Self {\n        self\n    }\n}\n";
    let file = |path: &str| File { path: path.into(), text: text.into() };
    let crates = BTreeSet::from(["a".to_owned()]);
    let (missing, looked_at) =
        without_setter(&[file("crates/a/src/x.rs"), file("crates/b/src/x.rs")], &crates);
    assert_eq!(missing, ["crates/a/src/x.rs: Options::bare has no setter bare"]);
    assert_eq!(looked_at, 1);
}
