//! No run of equal lines stands in two places: what two places need is written once.

use std::collections::HashMap;

use crate::repository::{File, files};

/// So many equal lines in a row are one piece of code in two places.
const RUN: usize = 20;

/// What is code, and not generated. Examples show whole programs side by side.
fn is_code(path: &str) -> bool {
    let kinds = ["rs", "sql", "py", "js", "mjs", "sh"];
    let is_kind = path.rsplit_once('.').is_some_and(|(_, kind)| kinds.contains(&kind));
    is_kind && !path.starts_with("examples/")
}

/// How a line begins that is nothing but a comment.
fn comment(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, kind)| kind) {
        Some("sql") => "--",
        Some("py" | "sh") => "#",
        _ => "//",
    }
}

/// The lines of code, with their numbers: without blank lines, comments and indentation.
fn code(file: &File) -> Vec<(usize, String)> {
    let numbered = file.text.lines().enumerate();
    let lines = numbered.map(|(index, line)| (index + 1, line.trim().to_owned()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(comment(&file.path))).collect()
}

/// The runs that stand in two places, each with its first lines.
fn repeats(files: &[File]) -> Vec<String> {
    let lines: Vec<Vec<(usize, String)>> = files.iter().map(code).collect();
    let mut known: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    // Where the last run that was found goes on: it is told once.
    let mut going_on = None;
    for (number, of_file) in lines.iter().enumerate() {
        for (index, window) in of_file.windows(RUN).enumerate() {
            let run: Vec<&str> = window.iter().map(|(_, line)| line.as_str()).collect();
            let here = (number, index);
            let Some(there) = known.get(&run).copied() else {
                known.insert(run, here);
                continue;
            };
            if going_on != Some((here, there)) {
                let name =
                    |(file, index): (usize, usize)| format!("{}:{}", files[file].path, lines[file][index].0);
                found.push(format!("{} and {}", name(there), name(here)));
            }
            going_on = Some(((here.0, here.1 + 1), (there.0, there.1 + 1)));
        }
    }
    found
}

#[test]
fn no_long_run_of_lines_stands_in_two_places() {
    let code: Vec<File> = files().into_iter().filter(|file| is_code(&file.path)).collect();
    assert!(code.len() > 500, "the code was not found");
    let found = repeats(&code);
    assert!(
        found.is_empty(),
        "{RUN} or more equal lines, which belong into one place:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_long_run_is_found_whatever_its_indentation_and_told_once() {
    let lines = |count: usize, indent: &str| -> String {
        (0..count).map(|n| format!("{indent}let a{n} = {n};\n\n")).collect()
    };
    let file = |path: &str, text: String| File { path: path.into(), text };
    let first = file("a.rs", format!("first();\n{}", lines(RUN + 3, "")));
    let second = file("b.rs", format!("{}second();\n", lines(RUN + 3, "    ")));
    assert_eq!(repeats(&[first, second]), ["a.rs:2 and b.rs:1"]);
    let (short, again) = (file("a.rs", lines(RUN - 1, "")), file("b.rs", lines(RUN - 1, "")));
    assert!(repeats(&[short, again]).is_empty());
}

#[test]
fn comments_neither_hide_a_run_nor_make_one() {
    let lines = |count: usize, comment: &str| -> String {
        (0..count).map(|n| format!("{comment} line {n}\n\ncall({n});\n")).collect()
    };
    let file = |path: &str, text: String| File { path: path.into(), text };
    for (kind, comment) in [("rs", "    ///"), ("sql", "--"), ("py", "#")] {
        let path = |name: &str| format!("{name}.{kind}");
        let (first, second) = (lines(RUN, comment), lines(RUN, &format!("{comment} of its own:")));
        let found = repeats(&[file(&path("a"), first), file(&path("b"), second)]);
        assert_eq!(found, [format!("a.{kind}:3 and b.{kind}:3")]);
        let (short, again) = (lines(RUN - 1, comment), lines(RUN - 1, comment));
        assert!(repeats(&[file(&path("a"), short), file(&path("b"), again)]).is_empty());
    }
}
