//! What is shipped beside the binary: manual pages, the unit for systemd, the container file and the manifests for Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::home::{Home, eventually};

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

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Every path that the container file takes from the repository or from what was built, and what it leaves out.
#[test]
fn the_container_file_finds_what_it_copies_and_builds() {
    let text = std::fs::read_to_string(dist("Containerfile")).unwrap();
    let ignored = std::fs::read_to_string(repository(".dockerignore")).unwrap();
    let ignored: Vec<_> = ignored.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    for path in [".git", "target"] {
        assert!(ignored.contains(&path), "{path} would be sent to the builder: {ignored:?}");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "crates", "crates/cli", "examples", "xtask", ".cargo"] {
        assert!(!ignored.contains(&needed) && repository(needed).exists(), "{needed}");
    }
    let mut copies = 0;
    for line in text.lines() {
        let Some(copy) = line.strip_prefix("COPY ") else { continue };
        copies += 1;
        let from = copy.split(' ').find(|word| !word.starts_with("--")).unwrap();
        match copy.strip_prefix("--from=build ") {
            Some(_) => assert_eq!(from, "/src/target/dist/pillarbox"),
            None => assert!(repository(from).exists(), "{from}"),
        }
    }
    assert_eq!(copies, 2, "{text}");
    assert!(text.contains("cargo build --locked --profile dist --package pillarbox-cli"), "{text}");
    let manifest = std::fs::read_to_string(repository("Cargo.toml")).unwrap();
    assert!(manifest.contains("[profile.dist]"));
    let manifest = std::fs::read_to_string(repository("crates/cli/Cargo.toml")).unwrap();
    assert!(
        manifest.contains("name = \"pillarbox-cli\"") && manifest.contains("[[bin]]\nname = \"pillarbox\"")
    );
}

/// The documents of the manifest file, by their kind. PyYAML comes with the Python of the tests.
fn manifest(kind: &str) -> Value {
    let python = std::env::var("PILLARBOX_TEST_PYTHON")
        .expect("PILLARBOX_TEST_PYTHON is not set: run this through `cargo xtask services -- cargo test`");
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let output = Command::new(python).args(["-c", script]).arg(dist("kubernetes.yml")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let documents: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    documents.into_iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_deployment_for_kubernetes_has_probes_limits_and_no_rights() {
    let deployment = manifest("Deployment");
    let (template, pod) = (&deployment["spec"]["template"], &deployment["spec"]["template"]["spec"]);
    let labels = &template["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    let [relay] = pod["containers"].as_array().unwrap().as_slice() else { panic!("{pod}") };
    let port = &relay["ports"][0];
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(relay[probe]["httpGet"], json!({"path": path, "port": port["name"]}), "{probe}");
    }
    let annotations = &template["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], port["containerPort"].to_string());
    assert_eq!(annotations["prometheus.io/path"], "/metrics");
    // As the container file names its user.
    let container = std::fs::read_to_string(dist("Containerfile")).unwrap();
    assert!(container.contains(&format!("USER {0}:{0}\n", pod["securityContext"]["runAsUser"])), "{pod}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let context = &relay["securityContext"];
    assert_eq!(
        (&context["allowPrivilegeEscalation"], &context["readOnlyRootFilesystem"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    for amount in [&relay["resources"]["requests"]["memory"], &relay["resources"]["limits"]["memory"]] {
        assert!(amount.as_str().unwrap().ends_with("Mi"), "{amount}");
    }
    // `grace` is 10 s by default, and what comes after it takes up to 5 s.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > 15, "{pod}");
}

/// The binary itself reads the configuration, with the variables that the Deployment has, and serves at its address.
#[test]
fn a_relay_runs_and_answers_its_probes_with_the_configuration_for_kubernetes() {
    let (config, deployment) = (manifest("ConfigMap"), manifest("Deployment"));
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["configMap"]["name"], config["metadata"]["name"]);
    let relay = &pod["containers"][0];
    let container = std::fs::read_to_string(dist("Containerfile")).unwrap();
    let mounted = format!("{}/pillarbox.toml", relay["volumeMounts"][0]["mountPath"].as_str().unwrap());
    assert!(container.contains(&format!("\"--config\", \"{mounted}\"")), "{mounted}");
    let text = config["data"]["pillarbox.toml"].as_str().unwrap();
    let listen = format!("listen = \"0.0.0.0:{}\"", relay["ports"][0]["containerPort"]);
    assert!(text.contains(&listen), "{text}");
    let home = Home::migrated();
    home.write("pillarbox.toml", &text.replace(&listen, "listen = \"0.0.0.0:0\""));
    let value = |name: &str| match name {
        "DATABASE_URL" => "sqlite://pillarbox.db".to_owned(),
        "BROKER_URL" => "null:".to_owned(),
        _ => format!("{name}-").repeat(4),
    };
    let mut command = home.command(relay["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
    for variable in relay["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(variable["valueFrom"]["secretKeyRef"]["key"].is_string(), "{variable}");
        assert!(text.contains(&format!("${{{name}}}")), "{name} is not used");
        command.env(name, value(name));
    }
    command.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(home.path("log")).unwrap());
    let _relay = crate::home::Running::of(command.spawn().unwrap());
    // Every line is JSON, as the configuration wants it.
    let mut port = String::new();
    eventually("the relay says where its page is", || {
        let log = home.read("log");
        let found = log.split("the page is at http://0.0.0.0:").nth(1).and_then(|rest| rest.split_once('/'));
        port = found.map_or("", |(port, _)| port).to_owned();
        !port.is_empty()
    });
    for (path, wanted) in [("/livez", 200), ("/readyz", 200), ("/metrics", 401), ("/", 401)] {
        assert_eq!(crate::dashboard::status_of(&format!("127.0.0.1:{port}"), path, None), wanted, "{path}");
    }
    let viewer = value("PILLARBOX_VIEWER");
    assert_eq!(crate::dashboard::status_of(&format!("127.0.0.1:{port}"), "/metrics", Some(&viewer)), 200);
}
