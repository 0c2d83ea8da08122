//! Asks Python's `standardwebhooks` and `cloudevents`, as installed where `PILLARBOX_TEST_PYTHON` says.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// One question to `webhooks.py`, and its answer.
pub(crate) async fn ask(question: Value) -> Value {
    let python = std::env::var("PILLARBOX_TEST_PYTHON")
        .expect("PILLARBOX_TEST_PYTHON is not set: run the tests through `cargo xtask services python -- …`");
    let mut child = Command::new(python)
        .args(["-c", include_str!("webhooks.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("PILLARBOX_TEST_PYTHON names a Python");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(question.to_string().as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "webhooks.py failed; what it said is above");
    serde_json::from_slice(&output.stdout).unwrap()
}
