//! JSON lines, by raw lines.

use serde_json::{Value, json};

use super::harness::{Mark, Peer};

async fn send(peer: &mut Peer, id: u64, call: Value) {
    peer.send(json!({"id": id, "session": "s", "agent": "a", "call": call})).await;
}

async fn call(peer: &mut Peer, id: u64, body: Value) -> Value {
    send(peer, id, body).await;
    peer.answer(id).await
}

#[tokio::test]
async fn calls_are_answered_in_any_order_and_the_end_of_the_input_ends_everything() {
    let mark = Mark::new();
    let mut peer = Peer::start(&["rpc"]);
    assert_eq!(peer.next().await.expect("hello")["hello"]["protocol"], 1);
    let started = call(&mut peer, 1, json!({"action": "start", "command": mark.lives(), "label": "w"})).await;
    assert_eq!(started["result"]["state"], "running", "{started}");
    send(&mut peer, 2, json!({"action": "wait", "process_id": "w", "until": {"kind": "exit"}})).await;
    let taken = call(&mut peer, 2, json!({"action": "list"})).await;
    assert_eq!(taken["error"]["code"], "conflict", "an id in flight is refused: {taken}");
    assert_eq!(call(&mut peer, 3, json!({"action": "list"})).await["result"]["counts"]["live"], 1);
    let denied = call(&mut peer, 4, json!({"action": "host_status"})).await;
    assert_eq!(denied["error"]["code"], "denied");
    peer.send(json!({"id": "s-1", "session": "s", "call": {"action": "host_status"}})).await;
    let status = peer.next().await.expect("an answer");
    assert_eq!((&status["id"], &status["result"]["live"]), (&json!("s-1"), &json!(1)));

    peer.send(json!({"cancel": 2})).await;
    assert_eq!(peer.answer(2).await["error"]["code"], "cancelled");
    assert_eq!(mark.census().len(), 1, "cancelling a wait ends nothing");
    send(&mut peer, 2, json!({"action": "wait", "process_id": "w", "until": {"kind": "exit"}})).await;
    let (rest, status) = peer.end().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.iter().filter(|line| line["id"] == 2).count(), 1, "the wait is answered before the end: {rest:?}");
    mark.check_gone();
}

#[tokio::test]
async fn a_cancelled_exec_is_stopped() {
    let mark = Mark::new();
    let mut peer = Peer::start(&["rpc"]);
    send(&mut peer, 1, json!({"action": "exec", "command": mark.lives(), "label": "job"})).await;
    let mut id = 2;
    while call(&mut peer, id, json!({"action": "status", "process_id": "job"})).await["error"].is_object() {
        id += 1;
        assert!(id < 10_000, "it never began");
    }
    peer.send(json!({"cancel": 1})).await;
    assert_eq!(peer.answer(1).await["error"]["code"], "cancelled");
    let waited =
        call(&mut peer, id + 1, json!({"action": "wait", "process_id": "job", "until": {"kind": "exit"}})).await;
    assert_eq!(waited["result"]["observation"]["cleanup"], "confirmed", "{waited}");
    mark.check_gone();
    peer.end().await;
}
