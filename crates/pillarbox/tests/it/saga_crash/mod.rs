//! The crash points of sagas: a process that ends itself exactly there, is started again, and has lost and doubled
//! nothing. The children are this very test binary, told by variables what to do.

mod backend;
mod child;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use pillarbox::operate::{AuditKind, SagaFilter, SagaRecord, StepState};
use pillarbox::{Ident, SagaAdmin, SagaStatus};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{unique, variable};
use backend::{Backend, Postgres, Sqlite};

/// Sagas of each of the two kinds.
const SAGAS: u32 = 3;
const SIGABRT: i32 = 6;

/// Where a process ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    /// G1: the handler has done its step, and nothing of that is recorded.
    StepDoneBeforeRecord,
    /// G2: the sink of the audit trail has written, and no status has changed.
    AuditBeforeStatus,
    /// G3: everything is written and the callback has run, and nothing is committed.
    LastStepBeforeComplete,
    /// A saga has ended, and its relay does not know.
    EndedBeforeKnown,
}

impl Point {
    const ALL: [Self; 4] = [
        Self::StepDoneBeforeRecord,
        Self::AuditBeforeStatus,
        Self::LastStepBeforeComplete,
        Self::EndedBeforeKnown,
    ];

    fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|point| format!("{point:?}") == name).expect("the name of a point")
    }
}

/// Runs a child to its end.
fn run<P: Backend>(at: &str, crash: Option<(Point, u32)>) -> (ExitStatus, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([P::CHILD, "--exact", "--nocapture", "--test-threads=1"])
        .env(child::AT, at)
        .stdin(Stdio::null());
    if let Some((point, nth)) = crash {
        command.env(child::POINT, format!("{point:?}")).env(child::NTH, nth.to_string());
    }
    let output = command.output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

async fn all<P: Backend>(place: &P) -> Vec<SagaRecord> {
    let sagas = place.store().list_sagas(SagaFilter::default()).await.unwrap();
    assert_eq!(sagas.len(), 2 * SAGAS as usize);
    sagas
}

/// At any moment: what shows is in the trail, what is in the trail shows, and what the application wrote in the same
/// transactions is there as often.
async fn check_whole<P: Backend>(place: &P) {
    let ended = place.count("ended").await;
    let mut records = 0;
    for saga in all(place).await {
        let trail = place.store().audit_of(&saga.subject).await.unwrap();
        records += trail.len();
        let kinds = |kind| trail.iter().filter(|record| record.kind == kind).count();
        let steps =
            |states: &[StepState]| saga.steps.iter().filter(|step| states.contains(&step.state)).count();
        let undone = steps(&[StepState::Compensated]);
        assert_eq!(kinds(AuditKind::StepCompensated), undone, "{saga:?} {trail:?}");
        // What was undone, or is to be, had been done.
        let done = steps(&[StepState::Done, StepState::Undoing, StepState::Compensating]) + undone;
        assert_eq!(kinds(AuditKind::StepSucceeded), done, "{saga:?} {trail:?}");
        assert_eq!(kinds(AuditKind::StepFailed), steps(&[StepState::Failed]), "{saga:?} {trail:?}");
        let ends = kinds(AuditKind::Completed) + kinds(AuditKind::Compensated);
        assert_eq!(ends, usize::from(saga.status.is_ended()), "{saga:?} {trail:?}");
        let callbacks =
            ended.iter().find(|(id, _)| *id == saga.id.to_string()).map_or(0, |(_, times)| *times);
        assert_eq!(callbacks, i64::from(saga.status.is_ended()), "{saga:?}");
    }
    let told: i64 = place.count("told").await.iter().map(|(_, times)| times).sum();
    assert_eq!(told, records as i64, "the sink was told of every record once");
}

/// At the end: every saga has ended, each step was done under one key, and the trail has no gap.
async fn check_ended<P: Backend>(place: &P, crash: (Point, u32)) {
    check_whole(place).await;
    let sagas = all(place).await;
    for saga in &sagas {
        let expected = if saga.name == "erase" { SagaStatus::Completed } else { SagaStatus::Compensated };
        assert_eq!(saga.status, expected, "{saga:?}");
        let trail = place.store().audit_of(&saga.subject).await.unwrap();
        let trail: Vec<String> = trail
            .iter()
            .map(|record| format!("{} {}", record.kind, record.step.as_deref().unwrap_or("-")))
            .collect();
        if saga.name == "erase" {
            let (end, steps) = trail.split_last().unwrap();
            let mut steps = steps.to_vec();
            steps.sort();
            assert_eq!(steps, ["step_succeeded crm", "step_succeeded files", "step_succeeded payments"]);
            assert_eq!(end, "completed -");
        } else {
            let story = [
                "step_succeeded hotel",
                "step_succeeded car",
                "step_failed card",
                "compensating -",
                "step_compensated car",
                "step_compensated hotel",
                "compensated -",
            ];
            assert_eq!(trail, story);
        }
    }
    let effects = place.count("effects").await;
    // Three of an erasure, two of a booking and two that undo them.
    assert_eq!(effects.len(), SAGAS as usize * (3 + 4), "one key for all attempts of a step");
    let again = effects.iter().filter(|(_, times)| *times > 1).count();
    // The first that is settled has an effect; a later one may be the card that does nothing.
    if matches!(crash, (Point::StepDoneBeforeRecord | Point::AuditBeforeStatus, 1)) {
        assert!(again > 0, "what was done and not recorded was done again");
    }
}

async fn crash_at<P: Backend>(at: &str, crash: (Point, u32)) {
    let place = Arc::new(P::open(at).await);
    place.create().await;
    for n in 1..=SAGAS {
        place.stage(child::erasure(n)).await;
        place.stage(child::booking(n)).await;
    }
    let (status, said) = run::<P>(at, Some(crash));
    assert_eq!(status.signal(), Some(SIGABRT), "{crash:?} was not reached: {said}");
    check_whole(&*place).await;
    if matches!(crash, (Point::StepDoneBeforeRecord | Point::AuditBeforeStatus, 1)) {
        assert_eq!(place.count("told").await, [], "nothing was recorded");
    }
    let (status, said) = run::<P>(at, None);
    assert!(status.success(), "{crash:?}: {said}");
    check_ended(&*place, crash).await;
}

async fn on_sqlite(point: Point) {
    for nth in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let at = format!("sqlite://{}", folder.path().join("sagas.db").display());
        crash_at::<Sqlite>(&at, (point, nth)).await;
    }
}

async fn on_postgres(point: Point) {
    for nth in [1, 3] {
        let schema = unique();
        crash_at::<Postgres>(&schema, (point, nth)).await;
        let mut connection = PgConnection::connect(&variable("PILLARBOX_TEST_POSTGRES")).await.unwrap();
        let drop = format!(
            "set client_min_messages = warning; drop schema {} cascade",
            Ident::new(&schema).unwrap()
        );
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await.unwrap();
    }
}

#[tokio::test]
async fn a_process_killed_after_a_step_and_before_its_record_does_it_again_under_its_key_on_sqlite() {
    on_sqlite(Point::StepDoneBeforeRecord).await;
}

#[tokio::test]
async fn a_process_killed_after_a_step_and_before_its_record_does_it_again_under_its_key_on_postgres() {
    on_postgres(Point::StepDoneBeforeRecord).await;
}

#[tokio::test]
async fn a_process_killed_between_audit_and_status_leaves_neither_on_sqlite() {
    on_sqlite(Point::AuditBeforeStatus).await;
}

#[tokio::test]
async fn a_process_killed_between_audit_and_status_leaves_neither_on_postgres() {
    on_postgres(Point::AuditBeforeStatus).await;
}

#[tokio::test]
async fn a_process_killed_before_its_saga_completes_completes_it_once_later_on_sqlite() {
    on_sqlite(Point::LastStepBeforeComplete).await;
}

#[tokio::test]
async fn a_process_killed_before_its_saga_completes_completes_it_once_later_on_postgres() {
    on_postgres(Point::LastStepBeforeComplete).await;
}

#[tokio::test]
async fn a_process_killed_when_its_saga_has_ended_does_not_end_it_again_on_sqlite() {
    on_sqlite(Point::EndedBeforeKnown).await;
}

#[tokio::test]
async fn a_process_killed_when_its_saga_has_ended_does_not_end_it_again_on_postgres() {
    on_postgres(Point::EndedBeforeKnown).await;
}
