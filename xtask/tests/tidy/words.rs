//! One word, one idea: these words name one type each in what is built, so that a reader of one file need not ask which
//! of them is meant.

use std::collections::BTreeMap;

use crate::repository::{File, files};

/// Words that named several types once. What a test defines for itself does not count.
const WORDS: [&str; 6] = ["Batch", "Held", "Line", "Place", "Step", "World"];

/// The types of these names that a file defines above its tests, with their lines.
fn defined(text: &str) -> Vec<(&'static str, usize)> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let types = code.filter_map(|(at, line)| {
        let mut words = line.trim_start().split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words
            .find(|word| !matches!(*word, "" | "pub" | "crate" | "super" | "in" | "unsafe"))
            .filter(|kind| matches!(*kind, "enum" | "struct" | "trait" | "type" | "union"))?;
        let name = words.next()?;
        Some((*WORDS.iter().find(|word| **word == name)?, at + 1))
    });
    types.collect()
}

#[test]
fn a_word_names_one_type() {
    let is_built = |file: &&File| {
        let path = &file.path;
        path.starts_with("crates/")
            && path.contains("/src/")
            && path.ends_with(".rs")
            && !path.ends_with("/tests.rs")
    };
    let files = files();
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(is_built) {
        for (word, line) in defined(&file.text) {
            places.entry(word).or_default().push(format!("{}:{line}", file.path));
        }
    }
    assert!(
        places.contains_key("Step") && places.contains_key("Held"),
        "the types were not found: {places:?}"
    );
    places.retain(|_, places| places.len() > 1);
    assert!(
        places.is_empty(),
        "one of each keeps the word, the others are called what they are: {places:#?}"
    );
}

#[test]
fn definitions_are_read_from_the_text() {
    let text = "pub struct Step {\n}\n    pub(crate) enum Place<'a> {}\ntype Line = u8;\nlet held = Held { a };\n\
                struct Stepping;\nimpl Batch {}\n// struct World\n#[cfg(test)]\nmod tests {\n    struct Batch;\n}\n";
    assert_eq!(defined(text), [("Step", 1), ("Place", 3), ("Line", 4)]);
}
