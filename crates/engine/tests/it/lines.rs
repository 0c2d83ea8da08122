use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Event, Outcome};
use pillarbox_engine::sink::FileSink;

use crate::rig::{Rig, options};

#[tokio::test]
async fn a_file_gets_one_complete_cloudevent_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", r#"{"id": 1}"#).key("o-1").header("shop", "north")).await;
    let raw = rig.stage(Event::new("blob", vec![0xff, 0x00]).content_type("application/octet-stream")).await;
    let sink = Arc::new(FileSink::open(&path).unwrap());
    assert_eq!(rig.to(sink, options()).build().unwrap().drain().await.unwrap().delivered, 2);

    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n'));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["id"], id.to_string());
    assert_eq!((&lines[0]["type"], &lines[0]["subject"]), (&"order.placed".into(), &"o-1".into()));
    assert_eq!(lines[0]["data"]["id"], 1);
    assert_eq!(lines[1]["id"], raw.to_string());
    assert_eq!(lines[1]["data_base64"], "/wA=");
}

#[tokio::test]
async fn an_incomplete_last_line_is_cut_before_more_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    for left_behind in ["{\"id\":\"kept\"}\n{\"id\":\"cut sho", "{\"id\":\"cut sho", ""] {
        std::fs::write(&path, left_behind).unwrap();
        let rig = Rig::new();
        rig.stage_many(3).await;
        let sink = Arc::new(FileSink::open(&path).unwrap());
        assert_eq!(rig.to(sink, options()).build().unwrap().drain().await.unwrap().delivered, 3);
        let text = std::fs::read_to_string(&path).unwrap();
        let kept = left_behind.matches('\n').count();
        assert_eq!(text.lines().count(), kept + 3, "{text}");
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    }
}

#[derive(Default)]
struct Confirmed(AtomicUsize);

impl Report for Confirmed {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Confirmed);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn deliveries_at_once_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let sink = Arc::new(FileSink::open(&path).unwrap());
    let rig = Rig::new();
    rig.stage_many(3).await;
    let entries = rig.store.entries();
    let deliveries = (0..200).map(|_| {
        let (sink, entries) = (Arc::clone(&sink), entries.clone());
        async move {
            let confirmed = Confirmed::default();
            sink.deliver(&entries, &confirmed).await;
            confirmed.0.into_inner()
        }
    });
    // The writes themselves go on threads of their own.
    assert_eq!(join_all(deliveries).await, [3; 200]);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 600);
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_with_its_name() {
    let error = FileSink::open("no/such/folder/events.ndjson").unwrap_err();
    assert!(error.to_string().contains("no/such/folder/events.ndjson"), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_a_destination_that_is_down() {
    let rig = Rig::new();
    rig.stage_many(3).await;
    let sink = Arc::new(FileSink::open("/dev/full").unwrap());
    let tally = rig.to(sink, options()).build().unwrap().drain().await.unwrap();
    assert_eq!((tally.delivered, tally.released, tally.dead), (0, 3, 0));
}

#[cfg(unix)]
#[test]
fn a_file_of_events_is_for_its_owner_only_and_one_that_is_there_keeps_its_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    drop(FileSink::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    drop(FileSink::open(&path).unwrap());
    assert_eq!(mode(), 0o640);
}
