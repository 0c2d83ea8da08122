//! What is shipped beside the binary: manual pages and the unit for systemd.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::Home;

fn dist(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(path)
}

fn pages(folder: &Path) -> Vec<(String, String)> {
    let mut pages: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|page| page.unwrap().path())
        .map(|page| {
            let name = page.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(page).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn the_manual_is_the_one_of_this_command() {
    let home = Home::new();
    std::fs::create_dir(home.path("man")).unwrap();
    home.ok(["man", "--to", "man"]);
    let (made, shipped) = (pages(&home.path("man")), pages(&dist("man")));
    let names = |pages: &[(String, String)]| pages.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert!(names(&made).contains(&"pillarbox-doctor.1".to_owned()), "{:?}", names(&made));
    assert!(
        made == shipped,
        "dist/man is not current: run `cargo run -- man --to dist/man`. Made {:?}, shipped {:?}",
        names(&made),
        names(&shipped)
    );
    assert!(home.ok(["man"]).stdout.contains(".TH pillarbox 1"));
}

/// `systemd-analyze` belongs to Debian's `systemd`. The path of the program is the one thing that differs here.
#[test]
fn systemd_accepts_the_unit() {
    let unit = std::fs::read_to_string(dist("systemd/pillarbox.service")).unwrap();
    let verify = |text: &str| {
        let home = Home::new();
        home.write("pillarbox.service", text);
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(home.path("pillarbox.service"))
            .output()
            .expect("systemd-analyze is not there: install Debian's package systemd");
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let here = unit.replace("/usr/bin/pillarbox", crate::PROGRAM);
    assert_ne!(here, unit);
    let (accepted, said) = verify(&here);
    assert!(accepted, "{said}");
    let (accepted, said) = verify(&here.replace("[Service]", "[Service]\nType=nonsense"));
    assert!(!accepted || said.contains("nonsense"), "everything is accepted: {said}");
}
