//! The doors: each makes a call of the protocol in its own way and gives back the answer in one shape.
//!
//! The shape is that of the library, but for output: a page has its `text` at the top, as MCP gives it.

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

use super::harness::{Peer, procession};
use super::support::Bench;

/// A way to a host of its own.
pub trait Door {
    /// Makes a call as agent `main`: the answer, or the error.
    async fn call(&mut self, call: Value) -> Result<Value, Value>;

    /// Closes the door and ends the host behind it.
    async fn end(self);
}

/// The library.
pub struct Facade(Bench);

/// `procession rpc`.
pub struct Rpc {
    peer: Peer,
    next: u64,
}

/// `procession mcp`, with the official client.
pub struct Mcp(RunningService<RoleClient, ()>);

impl Facade {
    pub async fn open() -> Self {
        Facade(Bench::new().await)
    }
}

impl Door for Facade {
    async fn call(&mut self, call: Value) -> Result<Value, Value> {
        self.0.call("s", Some("main"), call).await.map(with_text)
    }

    async fn end(self) {
        self.0.ended().await;
    }
}

impl Rpc {
    pub async fn open() -> Self {
        let mut peer = Peer::start(&["rpc"]);
        assert_eq!(peer.next().await.expect("a first line")["hello"]["protocol"], 1);
        Rpc { peer, next: 0 }
    }
}

impl Door for Rpc {
    async fn call(&mut self, call: Value) -> Result<Value, Value> {
        self.next += 1;
        self.peer.send(json!({"id": self.next, "session": "s", "agent": "main", "call": call})).await;
        let mut line = self.peer.answer(self.next).await;
        match (line["result"].take(), line["error"].take()) {
            (result, Value::Null) => Ok(with_text(result)),
            (Value::Null, error) => Err(error),
            both => panic!("an answer and an error: {both:?}"),
        }
    }

    async fn end(self) {
        let (rest, status) = self.peer.end().await;
        assert_eq!((rest.len(), status.code()), (0, Some(0)), "{rest:?}");
    }
}

impl Mcp {
    pub async fn open() -> Self {
        let transport = TokioChildProcess::new(procession(&["mcp"])).expect("the program starts");
        Mcp(().serve(transport).await.expect("a connection"))
    }
}

impl Door for Mcp {
    async fn call(&mut self, call: Value) -> Result<Value, Value> {
        let mut arguments = call.as_object().cloned().expect("an object");
        // The tools are flat: `exec` is one of its own, and a wait there is always for the end.
        arguments.remove("until");
        let tool = if arguments["action"] == "exec" { "exec" } else { "process" };
        if tool == "exec" {
            arguments.remove("action");
        }
        let result = self.0.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
        let mut answer = result.expect("a result").structured_content.expect("a structured answer");
        if let Some(error) = answer.get_mut("error") {
            return Err(error.take());
        }
        // What was started comes with its first output beside it.
        Ok(if call["action"] == "start" { answer["process"].take() } else { answer })
    }

    async fn end(self) {
        self.0.cancel().await.expect("closed");
    }
}

/// A page with the text of its chunks at the top; any other answer as it is.
fn with_text(mut answer: Value) -> Value {
    if let Some(chunks) = answer.get("chunks").and_then(Value::as_array) {
        let text: String = chunks.iter().filter_map(|chunk| chunk["text"].as_str()).collect();
        answer["text"] = json!(text);
    }
    answer
}
