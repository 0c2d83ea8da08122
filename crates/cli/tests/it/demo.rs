//! `pillarbox demo` and `pillarbox bench`.

use crate::home::Home;

#[test]
fn the_demo_ends_with_nothing_lost_invented_or_doubled() {
    let home = Home::new();
    let said = home.ok(["demo", "--exit"]);
    assert!(said.stdout.contains("nothing lost, nothing invented, nothing applied twice"), "{said:?}");
    assert_eq!(std::fs::read_dir(home.path(".")).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn the_demo_meets_the_faults_that_it_tells_of() {
    let home = Home::new();
    let json = home.ok(["demo", "--exit", "--json", "--events", "500", "--seed", "7"]).json();
    assert_eq!((&json["ok"], &json["seed"], &json["events"]), (&true.into(), &7.into(), &500.into()));
    for fault in [
        "rolled_back",
        "staged_twice",
        "failures",
        "confirmations_lost",
        "refused_by_outage",
        "killed_in_flight",
        "duplicates_absorbed",
    ] {
        assert!(json[fault].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    assert_eq!(json["effects"], json["committed"]);
    let sum = json["committed"].as_u64().unwrap() + json["rolled_back"].as_u64().unwrap();
    assert_eq!(sum, 500);
}

#[test]
fn the_demo_does_not_touch_a_database_that_was_not_named_for_it() {
    let home = Home::migrated();
    let mut command = home.command(["demo", "--exit", "--events", "20"]);
    let url = format!("sqlite://{}", home.path("pillarbox.db").display());
    assert!(command.env("DATABASE_URL", &url).output().unwrap().status.success());
    assert!(home.ok(["status", "--json"]).json()["routes"].as_array().unwrap().is_empty());
    home.ok(["--database", &url, "demo", "--events", "20"]);
    home.ok(["--database", &url, "demo", "--events", "20"]);
}
