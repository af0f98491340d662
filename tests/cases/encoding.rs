//! E: encoding and shape of output.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use procession::{Encoding, Process, State};
use serde_json::json;

use crate::support::{Bench, PATIENCE_MS, settled, text};

async fn raw(process: &Process) -> Vec<u8> {
    let (mut cursor, mut bytes) = (0, Vec::new());
    loop {
        let page = process.output().from(cursor).encoding(Encoding::Base64).page().await.expect("a page");
        for chunk in &page.chunks {
            let data = chunk.data_base64.as_ref().expect("base64 was asked for");
            bytes.extend(STANDARD.decode(data).expect("base64"));
        }
        cursor = page.next_cursor;
        assert_eq!(bytes.len() as u64, cursor, "cursors count raw bytes");
        if page.eof {
            return bytes;
        }
    }
}

#[tokio::test]
async fn r49_a_character_in_pieces_is_never_shown_in_pieces() {
    let bench = Bench::new().await;
    let pieces = "printf '\\360\\237'; sleep 0.1; printf '\\230'; sleep 0.1; printf '\\200 ok\\n'; sleep 0.1";
    let process = bench.start(pieces).await;
    let (mut cursor, mut seen) = (0, String::new());
    loop {
        let page = process.output().from(cursor).wait_ms(PATIENCE_MS).page().await.expect("a page");
        assert!(page.chunks.iter().all(|chunk| !chunk.lossy), "{page:?}");
        seen += &page.text();
        cursor = page.next_cursor;
        assert!(seen.is_empty() == (cursor == 0), "the cursor stays before what is not whole: {page:?}");
        if page.eof {
            break;
        }
    }
    assert_eq!((seen.as_str(), text(&process).await.as_str()), ("\u{1F600} ok\n", "\u{1F600} ok\n"));
    bench.ended().await;
}

#[tokio::test]
async fn r50_a_page_never_ends_inside_a_character() {
    let bench = Bench::new().await;
    let (process, _) = bench.run("printf 'ab\\343\\201\\202\\343\\201\\204'").await;
    let read = |cursor: u64, max_bytes: u64| {
        let call = json!({"action": "output", "process_id": process.id(), "cursor": cursor, "max_bytes": max_bytes});
        bench.call("s", Some("main"), call)
    };
    let page = read(0, 4).await.expect("a page");
    assert_eq!((&page["chunks"][0]["text"], &page["next_cursor"]), (&json!("ab"), &json!(2)));
    let page = read(2, 3).await.expect("a page");
    assert_eq!((&page["chunks"][0]["text"], &page["next_cursor"]), (&json!("\u{3042}"), &json!(5)));
    let error = read(2, 2).await.expect_err("it does not fit");
    assert_eq!((&error["code"], &error["details"]["needed"]), (&json!("page_too_small"), &json!(3)));
    assert_eq!(read(2, 3).await.expect("a page")["next_cursor"], 5, "the refusal moved nothing");
    bench.ended().await;
}

#[tokio::test]
async fn r52_any_bytes_make_valid_answers() {
    let bench = Bench::new().await;
    let odd =
        "{ printf 'a\\000b\\377\\376c\\033]0;x\\007\\033[31mred\\033[0m\\r\\n'; head -c 8192 /dev/urandom; } | tee raw";
    let (process, status) = bench.run(odd).await;
    let written = std::fs::read(bench.directory.path().join("raw")).expect("a file");
    assert_eq!(status.output.end, written.len() as u64);
    let call = json!({"action": "output", "process_id": process.id()});
    let answer = bench.call("s", Some("main"), call).await.expect("a page").to_string();
    let page: serde_json::Value = serde_json::from_str(&answer).expect("valid JSON");
    let shown = page["chunks"][0]["text"].as_str().expect("text");
    assert!(shown.starts_with("a\0b\u{FFFD}\u{FFFD}c\u{1b}]0;x\u{7}\u{1b}[31mred\u{1b}[0m\r\n"), "{shown:?}");
    assert_eq!(page["chunks"][0]["lossy"], true, "it says that bytes were replaced");
    assert_eq!(shown, String::from_utf8_lossy(&written), "one U+FFFD for each maximal invalid part");
    assert_eq!(page["next_cursor"], written.len(), "cursors count raw bytes");
    assert_eq!(raw(&process).await, written);
    bench.ended().await;
}

#[tokio::test]
async fn r53_a_line_without_end_is_only_bytes() {
    let bench = Bench::new().await;
    let (bytes, before) = (96 * 1024 * 1024_u64, resident_bytes());
    let process = bench.start(&format!("head -c {bytes} /dev/zero | tr '\\0' a")).await;
    let other = bench.start("sleep 65301").await;
    let mut slowest = Duration::ZERO;
    while process.wait(Some(20)).await.expect("a wait").observation.state == State::Running {
        let began = Instant::now();
        other.status().await.expect("a status");
        slowest = slowest.max(began.elapsed());
    }
    let status = settled(&process).await;
    assert_eq!((status.state, status.output.end), (State::Exited, bytes));
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    // Other tests of this program run beside this one, and are small.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < bytes / 2, "{grown} bytes more");
    let page = process.output().from(bytes - 10).page().await.expect("a page");
    assert_eq!((page.text().as_str(), page.eof), ("aaaaaaaaaa", true));
    bench.ended().await;
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a number");
    pages * 4096
}

#[tokio::test]
async fn r54_progress_bars_are_bytes_like_others() {
    let bench = Bench::new().await;
    let bar = "i=0; while [ $i -le 20000 ]; do printf '\\rfetch %d%%' $((i/200)); i=$((i+1)); done; echo";
    let (process, status) = bench.run(bar).await;
    let expected: String = (0..=20_000).map(|i| format!("\rfetch {}%", i / 200)).chain(["\n".to_owned()]).collect();
    assert_eq!(status.output.end, expected.len() as u64);
    assert!(text(&process).await == expected);
    let page = process.output().from(status.output.end - 13).page().await.expect("a page");
    assert_eq!(page.text(), "\rfetch 100%\n"[..].replace('\r', "%\r"));
    bench.ended().await;
}
