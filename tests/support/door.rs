//! The doors of a host: the same call through the facade, through JSON lines and through MCP.
//!
//! A door takes a `Call` as JSON and gives the answer or the error as JSON. What a front end shapes differently is
//! turned back here, so that one scenario serves all of them.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::census::{Census, MARK};
use super::{Bench, broker, fresh_mark, guarded};

/// The longest that an answer may take. Only a failing test meets it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to a host.
pub trait Door {
    /// Makes one call: the operator's where `agent` is absent.
    async fn call(&mut self, session: &str, agent: Option<&str>, call: Value) -> Result<Value, Value>;
}

/// The library itself.
pub struct Facade<'a>(pub &'a Bench);

impl Door for Facade<'_> {
    async fn call(&mut self, session: &str, agent: Option<&str>, call: Value) -> Result<Value, Value> {
        self.0.call(session, agent, call).await
    }
}

/// `procession rpc` as a process of its own.
pub struct Rpc {
    child: Child,
    writer: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last_id: u64,
}

impl Rpc {
    /// Runs `command`, which becomes the program or starts it, and takes its hello.
    pub async fn start(mut command: Command) -> Self {
        let mut child = command
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let writer = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut rpc = Rpc { child, writer, lines, last_id: 0 };
        assert_eq!(rpc.line().await["hello"]["protocol"], 1);
        rpc
    }

    /// Its number, to look at from outside.
    pub fn pid(&self) -> i32 {
        self.child.id().expect("it runs").cast_signed()
    }

    async fn line(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time").expect("read").expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Sends any line, and takes the next one.
    pub async fn exchange(&mut self, line: &[u8]) -> Value {
        self.writer.write_all(line).await.expect("written");
        self.writer.write_all(b"\n").await.expect("written");
        self.line().await
    }

    /// Ends our side; how the program ends.
    pub async fn end(self) -> ExitStatus {
        let Rpc { mut child, writer, .. } = self;
        drop(writer);
        timeout(PATIENCE, child.wait()).await.expect("in time").expect("waited for")
    }
}

impl Door for Rpc {
    async fn call(&mut self, session: &str, agent: Option<&str>, call: Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "session": session, "call": call});
        if let Some(agent) = agent {
            message["agent"] = json!(agent);
        }
        let mut answer = self.exchange(message.to_string().as_bytes()).await;
        assert_eq!(answer["id"], self.last_id, "{answer}");
        match answer.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(answer["result"].take()),
        }
    }
}

/// `procession mcp` as a process of its own, behind the official client: one agent of one session.
pub struct Mcp {
    client: RunningService<RoleClient, ()>,
}

impl Mcp {
    /// Runs `command` and shakes hands.
    pub async fn start(command: Command) -> Self {
        let transport = TokioChildProcess::new(command).expect("the program starts");
        Mcp { client: ().serve(transport).await.expect("a connection") }
    }

    /// Ends the connection, and with it the host.
    pub async fn end(self) {
        self.client.cancel().await.expect("closed");
    }
}

impl Door for Mcp {
    async fn call(&mut self, _: &str, _: Option<&str>, call: Value) -> Result<Value, Value> {
        let (tool, arguments) = as_tool(call);
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = timeout(PATIENCE, self.client.call_tool(params)).await.expect("in time").expect("a result");
        assert!(!result.content.is_empty(), "every answer has a text");
        as_answer(tool, result.structured_content.expect("every answer has a value"))
    }
}

/// The tool that makes a call, and its arguments: `exec` has a tool of its own, and `until` is flat.
fn as_tool(call: Value) -> (&'static str, Map<String, Value>) {
    let Value::Object(mut arguments) = call else { panic!("a call is an object") };
    if let Some(until) = arguments.remove("until") {
        assert_eq!(until, json!({"kind": "exit"}));
        arguments.insert("until_exit".to_owned(), json!(true));
    }
    if arguments.get("action") == Some(&json!("exec")) {
        arguments.remove("action");
        return ("exec", arguments);
    }
    ("process", arguments)
}

/// The answer as the library gives it: a started process at the top, output in chunks.
fn as_answer(tool: &str, mut value: Value) -> Result<Value, Value> {
    if let Some(error) = value.get_mut("error") {
        return Err(error.take());
    }
    if tool == "process" && value.get("process").is_some_and(Value::is_object) && value.get("outcome").is_none() {
        return Ok(value["process"].take());
    }
    if let Some(text) = value.get("text").cloned() {
        value["chunks"] = json!([{"stream": "stdout", "text": text}]);
    }
    Ok(value)
}

/// The program under test, with no configuration of whoever runs the test, and a census of what it leaves behind.
pub fn program(arguments: &[&str]) -> (Command, Census) {
    under(Command::new(env!("CARGO_BIN_EXE_procession")), arguments)
}

/// The same, begun by a shell's `prelude`.
pub fn program_after(prelude: &str, arguments: &[&str]) -> (Command, Census) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{prelude}; exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_procession"));
    under(shell, arguments)
}

fn under(mut command: Command, arguments: &[&str]) -> (Command, Census) {
    let mark = fresh_mark();
    command.args(arguments).arg("--set").arg(format!("env.pass=[\"{MARK}\"]"));
    if !guarded() {
        command.arg("--set").arg(format!("broker.path={}", broker()));
        command.args(["--set", "containment.require=group"]);
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").env(MARK, &mark);
    (command, Census::begin(&mark))
}
