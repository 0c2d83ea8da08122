//! stdout is data, stderr is talk; pipes that close; completions and help.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::home::{Home, Said};

#[test]
fn a_closed_stdout_is_a_quiet_end() {
    let home = Home::migrated();
    home.stage_many("r", 2000);
    for args in [
        vec!["list", "--limit", "10000", "--json"],
        vec!["relay", "--drain", "--route", "r", "--to", "stdout:"],
    ] {
        let mut command = home.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        let said = Said::from(child.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.stderr.contains("error:"), "{said:?}");
        assert!(!said.stderr.contains("panicked"), "{said:?}");
    }
    let totals = home.totals();
    assert_eq!(totals["in_flight"], 0, "{totals}");
    assert_eq!(totals["dead"], 0, "{totals}");
}

#[test]
fn nothing_is_coloured_where_there_is_no_terminal() {
    let home = Home::migrated();
    home.stage_many("r", 1);
    for said in [home.run(["status"]), home.run(["list"]), home.run(["show", "x"]), home.run(["relay"])] {
        assert!(!said.stdout.contains('\u{1b}') && !said.stderr.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn quiet_leaves_the_data_and_the_errors() {
    let home = Home::migrated();
    home.stage_many("r", 1);
    let said = home.ok(["relay", "--drain", "--route", "r", "--to", "null:", "--quiet", "--json"]);
    assert_eq!((said.json()["delivered"].as_u64(), said.stderr.as_str()), (Some(1), ""));
    home.run(["--quiet", "show", "0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e"])
        .refused(1, &["no route has an entry for"]);
}

#[test]
fn every_shell_has_completions() {
    let home = Home::new();
    home.write("pillarbox.toml", "not toml");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(home.ok(["completions", shell]).stdout.contains("requeue"), "{shell}");
    }
    home.run(["completions", "tcsh"]).refused(2, &["bash"]);
}

#[test]
fn every_command_has_help_with_examples() {
    let home = Home::new();
    for command in [
        "demo",
        "migrate",
        "stage",
        "relay",
        "status",
        "list",
        "show",
        "requeue",
        "discard",
        "reap",
        "purge",
        "bench",
        "completions",
    ] {
        let said = home.ok([command, "--help"]);
        assert!(
            said.stdout.contains("Examples:") && said.stdout.contains("--database"),
            "{command}: {said:?}"
        );
    }
    assert!(home.ok(["--version"]).stdout.starts_with("pillarbox "));
}
