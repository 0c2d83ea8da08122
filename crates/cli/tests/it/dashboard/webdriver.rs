//! A real browser, driven over WebDriver with plain HTTP and JSON.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::Asked;
use crate::home::{Running, eventually};

/// Where WebDriver puts the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Chromium with its driver; both end with this.
pub(super) struct Browser {
    _driver: Running,
    address: String,
    session: String,
}

impl Browser {
    /// Starts one. Without Chromium a test fails: it must not seem to have run.
    pub(super) fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = std::env::var("PILLARBOX_TEST_CHROMEDRIVER").expect(
            "PILLARBOX_TEST_CHROMEDRIVER is not set: run this through `cargo xtask services -- cargo test`",
        );
        let mut command = Command::new(driver);
        command
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("the driver cannot be started");
        let (driver, address) = (Running::of(child), format!("127.0.0.1:{port}"));
        eventually("the driver answers", || std::net::TcpStream::connect(&address).is_ok());
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"];
        let options = json!({ "args": arguments });
        // A page with a stream never ends loading.
        let wanted =
            json!({ "browserName": "chrome", "pageLoadStrategy": "eager", "goog:chromeOptions": options });
        let mut browser = Self { _driver: driver, address, session: String::new() };
        let made = browser.call("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    fn call(&self, method: &'static str, path: &str, body: &Value) -> Value {
        let ask = Asked::new(&self.address, method, path);
        let answer = if method == "POST" { ask.json(body).send() } else { ask.send() };
        let value = answer.json()["value"].clone();
        assert!(value.get("error").is_none(), "{method} {path} {body}: {value}");
        value
    }

    fn in_session(&self, method: &'static str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("{}{path}", self.session), body)
    }

    /// Opens an address.
    pub(super) fn open(&self, url: &str) {
        self.in_session("POST", "/url", &json!({ "url": url }));
    }

    /// Runs a function body in the page.
    pub(super) fn run(&self, script: &str) -> Value {
        self.in_session("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub(super) fn until(&self, expression: &str) {
        eventually(expression, || self.run(&format!("return Boolean({expression})")) == json!(true));
    }

    /// The text that a person sees.
    pub(super) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Clicks what a person would click.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        self.until(&format!("document.querySelector({})", json!(selector)));
        let found = json!({ "using": "css selector", "value": selector });
        let element = self.in_session("POST", "/element", &found)[ELEMENT].as_str().unwrap().to_owned();
        self.in_session("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types keys where the focus is.
    pub(super) fn keys(&self, keys: &str) {
        let press = |key: char| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.in_session("POST", "/actions", &actions);
    }

    fn develop(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.in_session("POST", "/goog/cdp/execute", &body)
    }

    /// The size of the window, and whether it is dark.
    pub(super) fn look(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.develop("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.develop("Emulation.setEmulatedMedia", &features);
    }

    /// Saves what is seen, and says where.
    pub(super) fn picture(&self, name: &str) -> PathBuf {
        let picture = self.in_session("GET", "/screenshot", &Value::Null);
        let bytes = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        let folder = folder();
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, bytes).unwrap();
        file
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let path = self.session.clone();
        if !path.is_empty() {
            let _ = std::panic::catch_unwind(|| Asked::new(&self.address, "DELETE", &path).send());
        }
    }
}

/// Where pictures are saved: beside the program's own folder.
fn folder() -> PathBuf {
    let program = Path::new(crate::PROGRAM);
    program.parent().and_then(Path::parent).unwrap().join("screenshots")
}
