//! The protocol by raw lines, as far as no process is needed.

use tokio::io::{AsyncBufReadExt, DuplexStream, Lines, ReadHalf, WriteHalf, split};

use super::*;

struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn connect() -> Client {
    let host = Host::builder().require(crate::protocol::state::ContainmentKind::Group).start().await.expect("a host");
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = split(far);
    let server = tokio::spawn(serve(host, reader, writer));
    let (near_reader, near_writer) = split(near);
    Client { lines: BufReader::new(near_reader).lines(), writer: near_writer, server }
}

impl Client {
    async fn send(&mut self, line: &[u8]) {
        self.writer.write_all(line).await.expect("written");
        self.writer.write_all(b"\n").await.expect("written");
    }

    async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("read").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The error that `line` is answered with.
    async fn check(&mut self, line: &[u8], id: Value, code: &str, field: Option<&str>) {
        self.send(line).await;
        let answer = self.next().await;
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        assert_eq!((&answer["id"], answer["error"]["code"].as_str()), (&id, Some(code)), "{shown}: {answer}");
        assert_eq!(answer["error"]["details"]["field"].as_str(), field, "{shown}: {answer}");
    }

    async fn end(mut self) {
        self.writer.shutdown().await.expect("closed");
        drop((self.writer, self.lines));
        self.server.await.expect("no panic").expect("a clean end");
    }
}

#[tokio::test]
async fn every_bad_line_is_answered_and_the_connection_lives() {
    let mut client = connect().await;
    let hello = client.next().await;
    assert_eq!(hello["hello"]["protocol"], 1);
    assert!(hello["hello"]["host_id"].as_str().is_some_and(|id| id.len() == 34));
    let bad = "invalid_argument";
    client.check(b"nonsense", Value::Null, bad, None).await;
    client.check(b"\xff\xfe", Value::Null, bad, None).await;
    client.check(b"[1]", Value::Null, bad, Some("line")).await;
    client.check(b"{}", Value::Null, bad, Some("id")).await;
    client.check(br#"{"id": 1.5}"#, Value::Null, bad, Some("id")).await;
    client.check(br#"{"cancel": null}"#, Value::Null, bad, Some("cancel")).await;
    client.check(br#"{"cancel": 1, "id": 2}"#, Value::Null, bad, Some("id")).await;
    client.check(br#"{"id": 7}"#, json!(7), bad, Some("session")).await;
    client.check(br#"{"id": "a", "session": "s p", "call": {}}"#, json!("a"), bad, Some("session")).await;
    client.check(br#"{"id": "a", "session": "s"}"#, json!("a"), bad, Some("call")).await;
    client.check(br#"{"id": "a", "sesion": "s", "call": {}}"#, json!("a"), bad, Some("sesion")).await;
    client.check(br#"{"id": "a", "session": "s", "call": {"action": "stat"}}"#, json!("a"), bad, Some("action")).await;
    let long = vec![b'x'; LINE_BYTES_MAX + 1];
    client.check(&long, Value::Null, "too_large", None).await;
    client.send(b"").await;
    client.send(br#"{"cancel": 99}"#).await;
    client.check(b"still here", Value::Null, bad, None).await;
    client.end().await;
}

#[test]
fn a_call_is_read_with_its_origin() {
    let line = br#"{"id": 1, "session": "s", "agent": "a", "request": null, "call": {"action": "list"}}"#;
    let Ok(Message::Call { id, origin, call }) = Message::parse(line) else { panic!("a call") };
    assert_eq!((id, call.action()), (json!(1), "list"));
    assert_eq!(origin.caller, Caller::Agent("a".parse().expect("a name")));
    assert_eq!(origin.request, None);
}
