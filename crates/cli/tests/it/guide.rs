//! The first ten minutes of a user: what the guide's first page and the README say to type, typed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::home::{Home, Said};

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The part of a page from this heading to the next one.
pub(crate) fn section(page: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(repository(page)).unwrap();
    let start = text.find(&format!("# {heading}\n")).unwrap_or_else(|| panic!("{page} has no {heading}"));
    let body = text[start..].split_once('\n').unwrap().1;
    body.split("\n## ").next().unwrap().to_owned()
}

/// The commands of a section: its indented lines, outside of fenced code.
fn commands(section: &str) -> Vec<String> {
    let prose: Vec<&str> = section.split("```").step_by(2).collect();
    let lines = prose.iter().flat_map(|part| part.lines());
    let commands = lines.filter(|line| line.starts_with("    ")).map(|line| line.trim().to_owned()).collect();
    assert_ne!(commands, Vec::<String>::new(), "there is nothing to type");
    commands
}

/// The fenced code of this language. There must be one.
pub(crate) fn code(section: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let [_, code] = section.split(&start).collect::<Vec<_>>().try_into().unwrap();
    code.split("```").next().unwrap().to_owned()
}

/// Types a command: `pillarbox` is the one that was built.
fn type_in(home: &Home, command: &str) -> Said {
    let binary = Path::new(env!("CARGO_BIN_EXE_pillarbox")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(home.path("")).env("PATH", path).env_remove("DATABASE_URL");
    let said = Said::from(shell.output().unwrap());
    assert_eq!(said.code, 0, "{command}: {said:?}");
    said
}

/// Types everything, and returns what the last command said.
fn type_all(home: &Home, commands: &[String]) -> Said {
    let (last, before) = commands.split_last().unwrap();
    before.iter().for_each(|command| drop(type_in(home, command)));
    type_in(home, last)
}

/// The one event that the shop of each language places.
#[track_caller]
fn is_the_order(said: &Said, data: &Value) {
    let [event] = said.lines().try_into().unwrap();
    assert_eq!((&event["type"], &event["subject"]), (&json!("order.placed"), &json!("o-1")), "{event}");
    assert_eq!(&event["data"], data);
}

fn with_a_note() -> Value {
    json!({"id": "o-1", "total": 12, "note": "keep \"C:\\temp\""})
}

#[test]
fn what_the_first_page_says_to_type_works_in_a_fresh_folder() {
    let home = Home::new();
    let mut commands = commands(&section("docs/guide/start.md", "Start"));
    // Compiled already.
    assert_eq!(commands.remove(0), "cargo install --path crates/cli");
    assert!(repository("crates/cli/Cargo.toml").is_file());
    let [migrate, stage, relay, status] = commands.try_into().unwrap();
    type_in(&home, &migrate);
    type_in(&home, &stage);
    is_the_order(&type_in(&home, &relay), &json!({"id": "o-1", "total": 12}));
    assert!(type_in(&home, &status).stdout.contains("orders"));
}

#[test]
fn what_the_readme_says_to_type_works_in_a_fresh_folder() {
    let home = Home::new();
    let commands = commands(&section("README.md", "Use it"));
    assert!(commands.len() >= 7 && commands.iter().all(|command| command.starts_with("pillarbox ")));
    type_all(&home, &commands);
    assert_eq!(home.totals()["delivered"], 1);
}

#[test]
fn the_one_insert_of_the_readme_stages() {
    let home = Home::migrated();
    let text = std::fs::read_to_string(repository("README.md")).unwrap();
    home.sql(code(&text, "sql").leak());
    let said = home.ok(["relay", "--drain", "--route", "orders", "--to", "stdout:"]);
    assert_eq!(said.lines()[0]["data"], json!({"id": 1}));
}

#[test]
fn the_shop_in_python_places_its_order() {
    let (home, section) = (Home::new(), section("docs/guide/start.md", "From Python"));
    assert!(section.contains("Save this as `shop.py`"));
    home.write("shop.py", &code(&section, "python"));
    is_the_order(&type_all(&home, &commands(&section)), &with_a_note());
}

/// The folder of Node packages stands in for what `npm install` would make.
#[test]
fn the_shop_in_node_places_its_order() {
    let (home, section) = (Home::new(), section("docs/guide/start.md", "From Node"));
    assert!(section.contains("Save this as `shop.mjs`"));
    home.write("shop.mjs", &code(&section, "js"));
    let mut commands = commands(&section);
    let install = commands.iter().position(|command| command == "npm install better-sqlite3").unwrap();
    commands.remove(install);
    let modules = std::env::var("PILLARBOX_TEST_NODE_MODULES").expect(
        "PILLARBOX_TEST_NODE_MODULES is not set: run this through `cargo xtask services -- cargo test`",
    );
    #[cfg(unix)]
    std::os::unix::fs::symlink(modules, home.path("node_modules")).unwrap();
    is_the_order(&type_all(&home, &commands), &with_a_note());
}

#[test]
fn the_shop_in_rust_places_its_order() {
    let (home, section) = (Home::new(), section("docs/guide/start.md", "From Rust"));
    assert!(section.contains("Add to `Cargo.toml`") && section.contains("Save this as `src/main.rs`"));
    std::fs::create_dir(home.path("src")).unwrap();
    home.write("src/main.rs", &code(&section, "rust"));
    // The page has the checkout beside the shop. The rest is so that what the repository has compiled serves here too.
    let checkout = repository("crates/pillarbox").canonicalize().unwrap();
    let dependencies =
        code(&section, "toml").replace("../pillarbox/crates/pillarbox", checkout.to_str().unwrap());
    let workspace = std::fs::read_to_string(repository("Cargo.toml")).unwrap();
    let profiles = &workspace[workspace.find("[profile.dev]").unwrap()..];
    let manifest = format!("[package]\nname = \"shop\"\nedition = \"2024\"\n\n{dependencies}\n{profiles}");
    home.write("Cargo.toml", &manifest);
    std::fs::copy(repository("Cargo.lock"), home.path("Cargo.lock")).unwrap();
    assert_eq!(commands(&section), ["cargo run"]);
    let mut cargo = Command::new(env!("CARGO"));
    // From what is there: a test does not fetch.
    cargo.args(["run", "--quiet", "--offline"]).current_dir(home.path(""));
    // Where this test was compiled to, so that most of it is there already.
    let target = Path::new(env!("CARGO_BIN_EXE_pillarbox")).ancestors().nth(2).unwrap();
    cargo.env("CARGO_TARGET_DIR", target);
    let said = Said::from(cargo.output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    is_the_order(&said, &json!({"id": "o-1", "total": 12}));
}
