//! A stranger's program asks everything that the document of the API allows.

use std::process::Command;

use super::{Page, bury};
use crate::home::{Home, Said};

#[test]
fn whatever_is_asked_of_the_api_it_answers_as_its_document_says() {
    let home = Home::migrated();
    bury(&home, "mail", 3);
    let page = Page::serve(&home, &["--allow-actions"]);
    let python = std::env::var("PILLARBOX_TEST_PYTHON")
        .expect("PILLARBOX_TEST_PYTHON is not set: run this through `cargo xtask services -- cargo test`");
    let url = format!("http://{}", page.address);
    let mut command = Command::new(python);
    command.current_dir(home.path("")).args(["-m", "schemathesis.cli", "run"]);
    command.args([&format!("{url}/api/v1/openapi.json"), "--url", &url, "-H", "pillarbox-actor: fuzz"]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,response_schema_conformance"]);
    command.args(["--phases", "fuzzing", "--max-examples", "10", "--request-timeout", "30", "--seed", "7"]);
    let said = Said::from(command.output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("19 passed"), "every operation was asked: {said:?}");
}
