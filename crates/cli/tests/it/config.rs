//! The configuration file, through the binary.

use crate::home::Home;

fn refused(text: &str, with: &[&str]) {
    let home = Home::migrated();
    home.write("pillarbox.toml", text);
    for command in [vec!["config", "check"], vec!["relay", "--drain"], vec!["status"]] {
        home.run(&command).refused(2, with);
    }
}

#[test]
fn what_is_wrong_names_the_file_the_line_the_key_and_what_is_allowed() {
    refused("[databse]\nurl = 'x'", &["pillarbox.toml:1:", "`databse`", "`database`"]);
    refused(
        "[routes.r]\nto = 'null:'\nretries = 3",
        &["pillarbox.toml:3: routes.r:", "`retries`", "`max_attempts`"],
    );
    refused(
        "[database]\nurl = '${NOT_SET_ANYWHERE}'",
        &["pillarbox.toml:2: database.url:", "NOT_SET_ANYWHERE is not set"],
    );
    refused("[routes.r]\nto = 'null:'\nlease = '5 minutes'", &["pillarbox.toml:3: routes.r.lease:", "500ms"]);
    refused("[routes.r]\nto = 'ftp://h'", &["pillarbox.toml:2: routes.r.to:", "file:", "stdout:", "null:"]);
    refused("[routes.r]\nto = 'null:'\nbatch = 0", &["pillarbox.toml:3: routes.r.batch:", "1 to 10000"]);
    refused("[routes.r]\nto = 'null:'\nmax_attempts = 0", &["routes.r.max_attempts:", "1 to 1000000"]);
    refused("[routes.r]\nto = 'null:'\nlease = '-5s'", &["pillarbox.toml:3: routes.r.lease:"]);
    refused("[routes.r]\nto = 'null:'\norder = 'sorted'", &["routes.r.order:", "write \"key\" or \"none\""]);
    refused("[database", &["pillarbox.toml:1:"]);
    refused(
        "[retention]\ndelivered = '1d'\n[admin]\nlisten = 'localhost'",
        &["pillarbox.toml:4: admin.listen:", "127.0.0.1:8025"],
    );
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let home = Home::migrated();
    home.run(["--config", "other.toml", "status"]).refused(2, &["other.toml"]);
    home.run(["config", "check"]).refused(2, &["there is no pillarbox.toml in this folder", "--config"]);
}

#[test]
fn a_good_file_is_fine_and_show_fills_the_defaults_in() {
    let home = Home::new();
    home.write(
        "pillarbox.toml",
        "[database]\nurl = \"${SHOP_URL}\"\n[routes.orders]\nto = \"file:$${literal}.ndjson\"\nlease = \"10s\"\n\
         backoff = { base = \"2s\", jitter = false }\n[retention]\ndelivered = \"0s\"\n\
         [routes.hook]\nto = \"https://h/${SHOP_PATH}\"\nallow_private = true\n\
         secret = [\"${SHOP_NEW}\", \"${SHOP_OLD}\"]\n\
         [routes.bus]\nto = \"nats://${SHOP_TOKEN}@h/orders.{type}\"",
    );
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("SHOP_URL", "postgres://app:hunter2@db/shop").env("SHOP_TOKEN", "tell-nobody");
        command.env("SHOP_PATH", "hooks?token=path-canary");
        command.env("SHOP_NEW", "whsec_bmV3IGNhbmFyeSBuZXcgY2FuYXJ5IG5ldw==");
        command.env("SHOP_OLD", "whsec_b2xkIGNhbmFyeSBvbGQgY2FuYXJ5IG9sZA==");
        crate::home::Said::from(command.output().unwrap())
    };
    let check = run(&["config", "check"]);
    assert_eq!(
        (check.code, check.stdout.as_str()),
        (0, "pillarbox.toml: no errors, routes bus, hook, orders\n"),
        "{check:?}"
    );
    let show = run(&["config", "show", "--json"]);
    assert_eq!(show.code, 0, "{show:?}");
    let json = show.json();
    assert_eq!(json["routes"]["orders"]["lease"], "10s");
    assert_eq!(json["routes"]["orders"]["batch"], 500);
    assert_eq!(json["routes"]["orders"]["to"], "file:${literal}.ndjson");
    assert_eq!(
        json["routes"]["orders"]["backoff"],
        serde_json::json!({"base": "2s", "max": "5m", "multiplier": 2.0, "jitter": false})
    );
    assert_eq!(json["retention"]["delivered"], "0s");
    assert_eq!(json["routes"]["bus"]["to"], "nats://***@h/orders.{type}");
    let hook = &json["routes"]["hook"];
    assert_eq!((&hook["secret"], &hook["allow_private"]), (&serde_json::json!(["***", "***"]), &true.into()));
    for said in [&show, &run(&["config", "show"])] {
        for secret in ["hunter2", "tell-nobody", "path-canary", "bmV3IGNhbmFyeS", "b2xkIGNhbmFyeS"] {
            assert!(!said.stdout.contains(secret) && !said.stderr.contains(secret), "{said:?}");
        }
    }
}

#[test]
fn what_show_prints_is_a_configuration() {
    let home = Home::new();
    home.write("pillarbox.toml", "[routes.\"a b\"]\nto = \"null:\"");
    let shown = home.ok(["config", "show"]);
    home.write("pillarbox.toml", &shown.stdout);
    assert_eq!(home.ok(["config", "show"]).stdout, shown.stdout);
}

#[test]
fn the_database_is_taken_from_the_option_then_the_file_then_the_environment() {
    let home = Home::new();
    let url = |said: crate::home::Said| said.json()["database"]["url"].as_str().unwrap().to_owned();
    let show = |args: &[&str], variable: Option<&str>| {
        let mut command = home.command(["config", "show", "--json"]);
        command.args(args);
        if let Some(value) = variable {
            command.env("DATABASE_URL", value);
        }
        url(command.output().unwrap().into())
    };
    assert_eq!(show(&[], None), "sqlite://pillarbox.db");
    assert_eq!(show(&[], Some("sqlite://env.db")), "sqlite://env.db");
    home.write("pillarbox.toml", "[database]\nurl = \"sqlite://file.db\"");
    assert_eq!(show(&[], Some("sqlite://env.db")), "sqlite://file.db");
    assert_eq!(show(&["--database", "sqlite://option.db"], Some("sqlite://env.db")), "sqlite://option.db");
}

#[cfg(unix)]
#[test]
fn a_secret_in_a_file_that_others_may_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    home.write("pillarbox.toml", "[database]\nurl = \"postgres://app:hunter2@db/shop\"");
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(home.path("pillarbox.toml"), permissions).unwrap();
        home.ok(["config", "check"]).stderr
    };
    assert!(mode(0o644).contains("chmod 600"));
    assert!(!mode(0o600).contains("chmod"));
}

#[test]
fn tables_may_have_another_prefix() {
    let home = Home::new();
    home.write("pillarbox.toml", "[database]\nprefix = \"shop\"\n[routes.r]\nto = \"null:\"");
    home.ok(["migrate"]);
    home.ok(["stage", "--route", "r", "--type", "t", "--payload", "1"]);
    home.sql("update shop_outbox set tenant = 'north'");
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["delivered"], 1);
    home.write("pillarbox.toml", "[database]\nschema = \"shop\"");
    home.run(["status"]).refused(2, &["database.schema", "database.prefix"]);
}

#[test]
fn retention_of_zero_deletes_at_settle() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"null:\"\n[retention]\ndelivered = \"0s\"");
    home.stage_many("r", 10);
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["delivered"], 10);
    assert_eq!(home.totals()["delivered"], 0);
}

#[test]
fn the_page_of_all_settings_is_what_the_program_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/configuration.md");
    let said = Home::new().ok(["config", "reference"]).stdout;
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(said == written, "run `cargo run -- config reference > docs/guide/configuration.md`");
}

#[test]
fn what_an_error_about_a_webhook_names_is_a_setting() {
    let route = |more: &str| format!("[routes.r]\nto = 'https://example.org:8443/hook'\n{more}");
    refused(&route(""), &["routes.r:", "`ports`", "allow_private"]);
    refused(&route("ports = []"), &["routes.r.ports:", "443 and 80"]);
    refused(&route("ports = [70000]"), &["routes.r.ports", "1 to 65535"]);
    let plain = "[routes.r]\nto = 'http://example.org/hook'\n";
    refused(plain, &["allow_http"]);
    let home = Home::new();
    for text in [route("ports = [8443]"), format!("{plain}allow_http = true")] {
        home.write("pillarbox.toml", &text);
        home.ok(["config", "check"]);
        let shown = home.ok(["config", "show"]);
        home.write("pillarbox.toml", &shown.stdout);
        assert_eq!(home.ok(["config", "show"]).stdout, shown.stdout);
    }
}

#[test]
fn a_backoff_multiplier_is_a_number_from_1_to_100() {
    for wrong in ["0.5", "101", "'2'", "nan"] {
        refused(
            &format!("[routes.r]\nto = 'null:'\nbackoff = {{ multiplier = {wrong} }}"),
            &["routes.r.backoff"],
        );
    }
    let home = Home::new();
    home.write("pillarbox.toml", "[routes.r]\nto = 'null:'\nbackoff = { multiplier = 1.5 }");
    assert_eq!(home.ok(["config", "show", "--json"]).json()["routes"]["r"]["backoff"]["multiplier"], 1.5);
}
