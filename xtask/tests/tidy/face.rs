//! The public face: what the published crates offer, written down in `docs/public-api/`. A change of it must change the
//! page, so that nobody changes it by mistake.
//!
//! `UPDATE_PUBLIC_API=1 cargo test -p xtask --test tidy face` writes the pages anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::repository::{files, published, root};

const PAGES: &str = "docs/public-api";
/// Most names at the root of the facade: an application's author reads all of them.
const NAMES_MAX: usize = 47;
const ITEMS: [&str; 9] = ["const", "fn", "struct", "enum", "trait", "type", "static", "mod", "use"];

/// The public items of a formatted file: each as its first lines, up to its body.
fn public(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut of = String::new();
    let mut hidden = false;
    // Inside of a macro that writes an item for each name of a list.
    let mut listing = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        // What follows is for tests only.
        if line == "#[cfg(test)]" {
            break;
        }
        if line == "}" {
            listing = false;
        } else if line.ends_with("! {") && !line.starts_with(' ') {
            listing = true;
        }
        let begins = ["impl", "pub trait", "pub struct", "pub enum"];
        if begins.iter().any(|begin| line.starts_with(begin)) || (listing && line.starts_with("    impl ")) {
            of = head(line, &mut lines.clone());
        } else if line == "}" {
            of.clear();
        }
        let code = line.trim_start();
        if code == "#[doc(hidden)]" {
            hidden = true;
        } else if !code.starts_with("#[") && !code.starts_with("//") {
            let is_public = code.strip_prefix("pub ").is_some_and(is_item)
                || is_member(&of, line)
                || (listing && is_listed(line));
            if is_public && !hidden {
                let item = head(line, &mut lines.clone());
                let inside = !of.is_empty() && line.starts_with(' ');
                found.insert(if inside { format!("{of} … {item}") } else { item });
            }
            hidden = false;
        }
    }
    found
}

fn is_item(code: &str) -> bool {
    let mut words = code.split([' ', '(']).skip_while(|word| matches!(*word, "async" | "unsafe"));
    words.next().is_some_and(|word| ITEMS.contains(&word))
}

/// A name in a list, such as the calls of an outbox. Setters are not among them: they are called as their fields are.
pub(crate) fn is_listed(line: &str) -> bool {
    let name = line.strip_prefix("        ").and_then(|line| line.strip_suffix(';')).unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// What stands in a public trait or enum is public without a word, a field of a struct with one.
fn is_member(of: &str, line: &str) -> bool {
    let Some(code) = line.strip_prefix("    ").filter(|code| !code.starts_with(' ')) else { return false };
    if of.starts_with("pub trait") {
        return is_item(code);
    }
    let is_field = of.starts_with("pub struct") && code.starts_with("pub ");
    is_field || (of.starts_with("pub enum") && code.starts_with(char::is_uppercase))
}

/// A declaration without its body, on one line.
fn head<'a>(first: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = first.trim().to_owned();
    let is_whole = |text: &str| match text.contains("use ") {
        true => text.contains(';'),
        // A field or a variant ends with a comma, as lines of a signature do.
        false => text.contains(['{', ';']) || (text.ends_with(',') && !text.contains("fn ")),
    };
    while !is_whole(&text) {
        let Some(next) = rest.next() else { break };
        text.push(' ');
        text.push_str(next.trim());
    }
    if text.contains("use ") {
        return text.trim_end_matches(';').to_owned();
    }
    text.split(['{', ';']).next().unwrap_or_default().trim_end_matches([' ', ',']).to_owned()
}

/// The page of each published crate.
fn pages() -> BTreeMap<String, String> {
    let all = files();
    let mut pages = BTreeMap::new();
    for folder in published() {
        let source = format!("crates/{folder}/src/");
        let mut page = String::new();
        for file in all.iter().filter(|file| file.path.starts_with(&source) && file.path.ends_with(".rs")) {
            let items = public(&file.text);
            if !items.is_empty() {
                page.push_str(&format!("{}\n", &file.path[source.len()..]));
                items.iter().for_each(|item| page.push_str(&format!("    {item}\n")));
            }
        }
        pages.insert(format!("{folder}.txt"), page);
    }
    pages
}

#[test]
fn the_public_face_is_as_written_down() {
    let folder = root().join(PAGES);
    let pages = pages();
    if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        pages.iter().for_each(|(name, page)| fs::write(folder.join(name), page).unwrap());
    }
    let written = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let written: BTreeMap<String, String> = written
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    assert_eq!(written.keys().collect::<Vec<_>>(), pages.keys().collect::<Vec<_>>());
    for (name, page) in &pages {
        let (now, before): (BTreeSet<&str>, BTreeSet<&str>) =
            (page.lines().collect(), written[name].lines().collect());
        let came: Vec<_> = now.difference(&before).collect();
        let went: Vec<_> = before.difference(&now).collect();
        assert!(
            page == &written[name],
            "{PAGES}/{name} is not what the crate offers.\nnew: {came:#?}\ngone: {went:#?}\n\
             If that is meant: UPDATE_PUBLIC_API=1 cargo test -p xtask --test tidy face"
        );
    }
}

#[test]
fn the_facade_lists_its_names_and_not_too_many() {
    let facade = fs::read_to_string(root().join("crates/pillarbox/src/lib.rs")).unwrap();
    let top = facade.lines().take_while(|line| !line.starts_with("pub mod")).collect::<Vec<_>>().join(" ");
    let lists = top.split("pub use ").skip(1).filter_map(|list| list.split(';').next());
    let mut names = Vec::new();
    for list in lists {
        assert!(!list.contains('*'), "a name that nobody wrote down: {list}");
        let list = list.split_once('{').map_or(list, |(_, list)| list).trim_end_matches('}');
        names.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()));
    }
    assert!((30..=NAMES_MAX).contains(&names.len()), "{} names at the root of the facade", names.len());
}

#[test]
fn every_suite_shows_how_it_is_called() {
    let (mut suites, mut without) = (0, Vec::new());
    for file in files().iter().filter(|file| file.path.starts_with("crates/conformance/src/")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = line.strip_prefix("macro_rules! ").and_then(|line| line.strip_suffix(" {"))
            else {
                continue;
            };
            if !name.ends_with("_conformance") {
                continue;
            }
            suites += 1;
            let call = format!("pillarbox_conformance::{name}!(");
            let mut docs = lines[..index].iter().rev().take_while(|line| line.starts_with(['/', '#']));
            if !docs.any(|line| line.contains(&call)) {
                without.push(name.to_owned());
            }
        }
    }
    assert!(suites >= 10, "the suites were not found");
    assert!(without.is_empty(), "no example shows how to call {without:?}");
}

#[test]
fn every_kind_of_public_item_is_seen() {
    let text = "pub use a::{\n    B, C,\n};\npub(crate) fn no() {}\nfn neither() {}\n/// Words.\n#[must_use]\n\
                pub struct S {\n    pub field: u8,\n}\nimpl S {\n    pub async fn go(\n        &self,\n    ) -> u8 {\n\
                \x20       1\n    }\n    #[doc(hidden)]\n    pub fn hidden(&self) {}\n}\npub trait T {\n    fn must(&self);\n}\n\
                calls! {\n    impl S {\n        /// Words.\n        listed;\n    }\n}\n\
                #[cfg(test)]\nmod tests {\n    pub fn not_this() {}\n}\n";
    let found: Vec<String> = public(text).into_iter().collect();
    assert_eq!(
        found,
        [
            "impl S … listed",
            "impl S … pub async fn go( &self, ) -> u8",
            "pub struct S",
            "pub struct S … pub field: u8",
            "pub trait T",
            "pub trait T … fn must(&self)",
            "pub use a::{ B, C, }",
        ]
    );
}
