//! MCP over a pair of byte streams: the tools of [`runtime::tools`](crate::runtime::tools), offered by the official
//! SDK.
//!
//! Calls run side by side. A cancelled one ends without an answer and stops nothing but the command it was itself
//! running. The end of the reader is the end of the host: what it started is ended, a pending wait does not hold it.
//!
//! Invariant: nothing but the protocol is written to the writer.
//!
//! Deliberately absent: resources, prompts, tasks; sessions or agents as arguments.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use super::ending::{Watched, shut_down};
use crate::protocol::call::Origin;
use crate::runtime::Host;
use crate::runtime::tools::{Style, ToolResult, ToolSpec, call_tool, specs};

/// What a model is told once, before any call. About 100 tokens.
const INSTRUCTIONS: &str = "procession runs commands and owns the processes they start. Use `exec` for a command \
that ends within a minute, `process` with action `start` for servers, watchers and long work; it answers an id. Give \
a label to name it yourself. Then `wait` for its end, read its `output` from `next_cursor` on, `stop` it with all its \
children. A wait that runs out ends nothing. Stop what you no longer need; whatever is left is ended with this \
connection.";

/// Why serving ended otherwise than by the end of the reader.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The other side did not begin as the protocol says.
    #[error("MCP: {0}")]
    Handshake(Box<ServerInitializeError>),
    /// The server broke down.
    #[error("MCP: {0}")]
    Broken(String),
}

/// Serves until `reader` ends, then ends the host.
///
/// # Errors
/// The other side speaks no MCP. The host has been ended then, too.
pub async fn serve<R, W>(host: Host, origin: Origin, reader: R, writer: W) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let session = origin.session.clone();
    let (reader, ended) = Watched::new(reader);
    let door = Door { host: host.clone(), origin };
    let served = async {
        let result = match rmcp::serve_server(door, (reader, writer)).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| McpError::Broken(error.to_string())),
            // Whoever leaves before saying anything has done nothing wrong.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(McpError::Handshake(Box::new(error))),
        };
        ended.cancel();
        result
    };
    // At the end of the reader the calls still parked are answered by what the shutdown does to their processes.
    let shutdown = async {
        ended.cancelled().await;
        shut_down(&host, session).await
    };
    let (served, shutdown) = tokio::join!(served, shutdown);
    if let Err(error) = shutdown {
        tracing::warn!(%error, "the host did not shut down as it should");
    }
    served
}

/// Serves on standard input and output.
///
/// # Errors
/// As [`serve`].
pub async fn serve_stdio(host: Host, origin: Origin) -> Result<(), McpError> {
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    serve(host, origin, reader, writer).await
}

struct Door {
    host: Host,
    origin: Origin,
}

impl ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("procession", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(specs(Style::Actions).into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let answer = call_tool(&self.host, self.origin.clone(), &request.name, arguments, context.ct).await;
        Ok(result(answer).into())
    }
}

fn tool(spec: ToolSpec) -> Tool {
    let annotations = ToolAnnotations::from_raw(
        Some(spec.title.to_owned()),
        Some(spec.read_only),
        Some(spec.destructive),
        Some(spec.idempotent),
        Some(spec.open_world),
    );
    let schema = spec.input_schema.as_object().cloned().unwrap_or_default();
    let mut tool = Tool::new(spec.name, spec.description, Arc::new(schema));
    tool.title = Some(spec.title.to_owned());
    tool.annotations = Some(annotations);
    tool
}

fn result(answer: ToolResult) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(answer.structured);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::frontend::ending::operator;

    #[tokio::test]
    async fn tools_are_listed_and_a_mistake_is_a_result() {
        let host =
            Host::builder().require(crate::protocol::state::ContainmentKind::Group).start().await.expect("a host");
        let origin = operator("mcp".parse().expect("a name"));
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(far);
        let server = tokio::spawn(serve(host, origin, reader, writer));
        let (near_reader, mut near_writer) = tokio::io::split(near);
        let mut lines = BufReader::new(near_reader).lines();
        let sent = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
                "name": "exec", "arguments": {"cmd": "x"}}}),
        ];
        let mut got = Vec::new();
        for message in sent {
            near_writer.write_all(format!("{message}\n").as_bytes()).await.expect("written");
            if message.get("id").is_some() {
                let line = lines.next_line().await.expect("read").expect("an answer");
                got.push(serde_json::from_str::<Value>(&line).expect("JSON"));
            }
        }
        assert_eq!(got[0]["result"]["serverInfo"]["name"], "procession");
        let names: Vec<&str> = got[1]["result"]["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(names, ["exec", "process"]);
        assert_eq!(got[1]["result"]["tools"][0]["annotations"]["destructiveHint"], true);
        assert_eq!(got[2]["result"]["isError"], true);
        assert_eq!(got[2]["result"]["structuredContent"]["error"]["details"]["nearest"], "command");
        near_writer.shutdown().await.expect("closed");
        drop((near_writer, lines));
        server.await.expect("no panic").expect("a clean end");
    }
}
