//! MCP: with the official client, and by raw lines where it matters what is on the pipe.

use std::time::Instant;

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

use super::harness::{Mark, PATIENCE, Peer, procession};

async fn connect() -> Peer {
    connect_with(&["mcp"]).await
}

async fn connect_with(arguments: &[&str]) -> Peer {
    let mut peer = Peer::start(arguments);
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    peer.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})).await;
    assert_eq!(peer.answer(0).await["result"]["serverInfo"]["name"], "procession");
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    peer
}

async fn send_call(peer: &mut Peer, id: u64, tool: &str, arguments: Value) {
    let params = json!({"name": tool, "arguments": arguments});
    peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
}

async fn call(peer: &mut Peer, id: u64, tool: &str, arguments: Value) -> Value {
    send_call(peer, id, tool, arguments).await;
    peer.answer(id).await["result"].clone()
}

#[tokio::test]
async fn the_official_client_lists_and_calls_side_by_side() {
    let mark = Mark::new();
    let transport = TokioChildProcess::new(procession(&["mcp"])).expect("the program starts");
    let client = ().serve(transport).await.expect("a connection");
    let tools = client.list_all_tools().await.expect("tools");
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["exec", "process"]);
    for tool in &tools {
        assert_eq!(tool.input_schema["type"], "object");
        let annotations = tool.annotations.as_ref().expect("annotations");
        assert_eq!((annotations.read_only_hint, annotations.destructive_hint), (Some(false), Some(true)));
    }
    let call = |tool: &'static str, arguments: Value| {
        let arguments = arguments.as_object().cloned().expect("an object");
        let client = &client;
        async move {
            let params = CallToolRequestParams::new(tool).with_arguments(arguments);
            let result = client.call_tool(params).await.expect("a result");
            (result.is_error, result.structured_content.expect("structured"))
        }
    };
    let (is_error, done) = call("exec", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!((is_error, &done["process"]["exit"]["code"]), (Some(false), &json!(3)));
    let (_, started) = call("process", json!({"action": "start", "command": mark.lives(), "label": "web"})).await;
    assert_eq!(started["process"]["state"], "running");
    assert_eq!(mark.census().len(), 1);

    let wait = call("process", json!({"action": "wait", "process_id": "web"}));
    let others = async {
        for _ in 0..20 {
            let (_, status) = call("process", json!({"action": "status", "process_id": "web"})).await;
            assert_eq!(status["state"], "running");
        }
        let (is_error, _) = call("process", json!({"action": "stop", "process_id": "web"})).await;
        assert_eq!(is_error, Some(false));
    };
    let ((_, waited), ()) = tokio::join!(wait, others);
    assert_eq!((&waited["outcome"], &waited["observation"]["state"]), (&json!("satisfied"), &json!("stopped")));
    client.cancel().await.expect("closed");
    mark.check_gone();
}

#[tokio::test]
async fn the_end_of_the_input_ends_everything_and_a_pending_wait_does_not_hold_it() {
    let mark = Mark::new();
    let mut peer = connect().await;
    call(&mut peer, 1, "process", json!({"action": "start", "command": mark.lives(), "label": "w"})).await;
    send_call(&mut peer, 2, "process", json!({"action": "wait", "process_id": "w", "wait_ms": 600_000})).await;
    // The answer to a later call shows that the wait was taken.
    call(&mut peer, 3, "process", json!({"action": "list"})).await;
    assert_eq!(mark.census().len(), 1);
    let began = Instant::now();
    let (_, status) = peer.end().await;
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed().as_secs() < 5, "took {:?}", began.elapsed());
    mark.check_gone();
}

#[tokio::test]
async fn a_signal_ends_everything_too() {
    let mark = Mark::new();
    let mut peer = connect().await;
    call(&mut peer, 1, "process", json!({"action": "start", "command": mark.lives()})).await;
    let pid = nix::unistd::Pid::from_raw(peer.child.id().expect("running").cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("sent");
    assert_eq!(peer.status().await.code(), Some(143));
    mark.check_gone();
}

#[tokio::test]
async fn a_cancelled_wait_is_not_answered_and_ends_nothing() {
    let mark = Mark::new();
    let mut peer = connect().await;
    call(&mut peer, 1, "process", json!({"action": "start", "command": mark.lives(), "label": "w"})).await;
    send_call(&mut peer, 2, "process", json!({"action": "wait", "process_id": "w"})).await;
    call(&mut peer, 3, "process", json!({"action": "list"})).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})).await;
    let status = call(&mut peer, 4, "process", json!({"action": "status", "process_id": "w"})).await;
    assert_eq!(status["structuredContent"]["state"], "running");
    let (rest, _) = peer.end().await;
    assert!(rest.iter().all(|line| line["id"] != 2), "{rest:?}");
    mark.check_gone();
}

#[tokio::test]
async fn a_cancelled_exec_is_stopped() {
    let mark = Mark::new();
    let mut peer = connect().await;
    send_call(&mut peer, 1, "exec", json!({"command": mark.lives(), "label": "job"})).await;
    // Wait by its label until it is there, then for its end.
    let mut id = 2;
    while call(&mut peer, id, "process", json!({"action": "status", "process_id": "job"})).await["isError"] == true {
        id += 1;
        assert!(id < 10_000, "it never began");
    }
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    let waited = call(&mut peer, id + 1, "process", json!({"action": "wait", "process_id": "job"})).await;
    assert_eq!(waited["structuredContent"]["outcome"], "satisfied", "{waited}");
    mark.check_gone();
    peer.end().await;
}

#[tokio::test]
async fn children_have_neither_our_input_nor_our_output() {
    let mut peer = connect().await;
    let script = "head -c 200; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; readlink /proc/self/fd/0";
    send_call(&mut peer, 1, "exec", json!({"command": script})).await;
    for id in 2..22 {
        send_call(&mut peer, id, "process", json!({"action": "list"})).await;
    }
    let mut answered = Vec::new();
    while answered.len() < 21 {
        let line = peer.next().await.expect("an answer");
        if line["id"] == 1 {
            let text = line["result"]["structuredContent"]["output"]["text"].as_str().expect("text");
            assert_eq!(text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n/dev/null\n");
        }
        answered.push(line["id"].as_u64().expect("an id"));
    }
    answered.sort_unstable();
    assert_eq!(answered, (1..22).collect::<Vec<_>>());
    let (rest, status) = peer.end().await;
    assert_eq!((rest.len(), status.code()), (0, Some(0)));
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle_and_what_was_cut_can_be_read() {
    let mut peer = connect().await;
    let done = call(&mut peer, 1, "exec", json!({"command": "seq 1 20000"})).await;
    let text = done["structuredContent"]["output"]["text"].as_str().expect("text");
    assert!(done["structuredContent"].to_string().len() <= 16384);
    assert!(done["content"][0]["text"].as_str().expect("text").len() <= 16384);
    assert!(text.starts_with("1\n2\n") && text.ends_with("19999\n20000\n"));
    let mark = text.lines().find(|line| line.contains("bytes omitted")).expect("a mark");
    let cursor: u64 = mark.rsplit("cursor ").next().expect("a cursor").trim_end_matches(']').parse().expect("a number");
    let process = &done["structuredContent"]["process"]["process_id"];
    let page =
        call(&mut peer, 2, "process", json!({"action": "output", "process_id": process, "cursor": cursor})).await;
    let before = text.split("\n[").next().expect("a beginning");
    let more = page["structuredContent"]["text"].as_str().expect("text");
    let whole: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    assert!(whole.starts_with(&format!("{before}{more}")), "{before:?} and then {:?}", &more[..40]);
    // Without a cursor: the newest, from a line's start.
    let newest =
        call(&mut peer, 3, "process", json!({"action": "output", "process_id": process, "max_bytes": 100})).await;
    let newest = newest["structuredContent"]["text"].as_str().expect("text");
    assert!(newest.len() <= 100 && newest.starts_with("199") && newest.ends_with("20000\n"), "{newest:?}");
    peer.end().await;
}

#[tokio::test]
async fn no_call_outlives_its_bound() {
    let mark = Mark::new();
    let mut peer = connect_with(&["mcp", "--set", "mcp.call_max_ms=1000"]).await;
    let began = Instant::now();
    let ran = call(&mut peer, 1, "exec", json!({"command": mark.lives(), "grace_ms": 0})).await;
    assert_eq!((&ran["isError"], &ran["structuredContent"]["process"]["state"]), (&json!(true), &json!("timed_out")));
    assert!(ran["structuredContent"]["advice"].as_str().is_some_and(|advice| advice.contains("start")), "{ran}");
    call(&mut peer, 2, "process", json!({"action": "start", "command": mark.lives(), "label": "w"})).await;
    let waited = call(&mut peer, 3, "process", json!({"action": "wait", "process_id": "w"})).await;
    assert_eq!(waited["structuredContent"]["outcome"], "timeout");
    assert_eq!(waited["structuredContent"]["wait_ms"], 750);
    assert!(began.elapsed() < PATIENCE);
    peer.end().await;
    mark.check_gone();
}

#[tokio::test]
async fn what_ended_wrongly_is_an_error_and_an_exit_code_is_none() {
    let mut peer = connect().await;
    let checks = [
        (json!({"command": "exit 7"}), false),
        (json!({"command": "kill -SEGV $$"}), true),
        (json!({"command": "exec sleep 60", "timeout_ms": 100}), true),
        (json!({"command": "true", "cwd": "no/such/directory"}), true),
        (json!({"command": "true", "timeout": 5}), true),
    ];
    for (id, (arguments, expected)) in (1..).zip(checks) {
        let result = call(&mut peer, id, "exec", arguments.clone()).await;
        assert_eq!(result["isError"], expected, "{arguments}: {result}");
    }
    peer.end().await;
}
