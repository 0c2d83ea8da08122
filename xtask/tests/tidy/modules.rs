//! One way of naming module files: a module with children is `name/mod.rs`, one without is `name.rs`.

use std::collections::BTreeSet;

use crate::repository::files;

#[test]
fn a_module_with_children_is_the_mod_file_of_its_folder() {
    let paths: Vec<String> =
        files().into_iter().map(|file| file.path).filter(|path| path.ends_with(".rs")).collect();
    let folders: BTreeSet<&str> = paths.iter().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    let beside: Vec<String> = paths
        .iter()
        .filter_map(|path| path.strip_suffix(".rs"))
        .filter(|module| folders.contains(module))
        .map(|module| format!("{module}.rs belongs into {module}/mod.rs"))
        .collect();
    assert!(beside.is_empty(), "{}", beside.join("\n"));

    let alone: Vec<String> = paths
        .iter()
        .filter_map(|path| path.strip_suffix("/mod.rs"))
        .filter(|folder| paths.iter().filter(|path| path.starts_with(&format!("{folder}/"))).count() == 1)
        .map(|folder| format!("{folder}/mod.rs has no children: it belongs into {folder}.rs"))
        .collect();
    assert!(alone.is_empty(), "{}", alone.join("\n"));
}
