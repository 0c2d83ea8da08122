//! Every package says what it is and follows the same lints.

use std::fs;
use std::path::Path;

use crate::repository::packages;

#[test]
fn every_crate_root_says_what_the_crate_is() {
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let path = target["src_path"].as_str().unwrap();
            let text = fs::read_to_string(path).unwrap();
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            assert!(
                first.starts_with("//! "),
                "{path} does not begin with a //! comment that says what it is"
            );
        }
    }
}

#[test]
fn every_package_follows_the_lints_of_the_workspace() {
    for package in packages() {
        let path = Path::new(package["manifest_path"].as_str().unwrap());
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
        assert!(
            lines.next() == Some("workspace = true"),
            "{} lacks [lints] workspace = true",
            path.display()
        );
    }
}
