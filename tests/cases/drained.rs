//! D: draining, losing and paging output.

use std::fmt::Write;

use futures_util::future::join_all;
use procession::{Exit, Process, State, Stream};

use crate::support::{Bench, settled, text, written};

/// What `seq 1 last` prints.
fn seq(last: u32) -> String {
    (1..=last).fold(String::new(), |mut all, n| {
        writeln!(all, "{n}").expect("a string takes all");
        all
    })
}

/// Reads everything in pages of `max_bytes`, and checks that the cursor moves by what was given.
async fn in_pages(process: &Process, max_bytes: u64) -> String {
    let (mut cursor, mut all) = (0, String::new());
    loop {
        let page = process.output().from(cursor).max_bytes(max_bytes).page().await.expect("a page");
        let given = page.text();
        assert_eq!((page.start, page.next_cursor), (cursor, cursor + given.len() as u64), "pages of {max_bytes}");
        assert!(given.len() as u64 <= max_bytes);
        all += &given;
        if page.eof {
            return all;
        }
        assert!(page.next_cursor > cursor, "pages of {max_bytes} stand still at {cursor}");
        cursor = page.next_cursor;
    }
}

async fn under_load(bench: &Bench) -> Vec<Process> {
    join_all((0..4).map(|_| bench.start("while :; do :; done"))).await
}

#[tokio::test]
async fn r39_the_last_line_is_never_missing() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 20).await;
    under_load(&bench).await;
    for _ in 0..4 {
        let runs = (0..10).map(|_| async {
            let (process, _) = bench.run("printf 'one\\n'; sleep 0.1; printf 'two\\n'").await;
            text(&process).await
        });
        for said in join_all(runs).await {
            assert_eq!(said, "one\ntwo\n");
        }
    }
    bench.ended().await;
}

#[tokio::test]
async fn r40_an_end_is_told_with_its_output() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 20).await;
    under_load(&bench).await;
    for _ in 0..25 {
        let runs = (0..8).map(|_| async {
            let process = bench.start("printf hello").await;
            let waited = process.wait(None).await.expect("a wait");
            let page = process.output().page().await.expect("a page");
            (waited.observation.exit, page.text(), page.eof)
        });
        for run in join_all(runs).await {
            assert_eq!(run, (Some(Exit::code(0)), "hello".to_owned(), true));
        }
    }
    bench.ended().await;
}

#[tokio::test]
async fn r42_a_finished_process_is_read_from_its_first_byte() {
    let bench = Bench::new().await;
    let (process, status) = bench.run("seq 1 2000").await;
    assert_eq!((status.output.earliest, status.output.end), (0, 8893));
    for max_bytes in [1000, 65_536] {
        assert_eq!(in_pages(&process, max_bytes).await, seq(2000));
    }
    bench.ended().await;
}

#[tokio::test]
async fn r43_the_next_cursor_skips_nothing() {
    let bench = Bench::new().await;
    let (process, _) = bench.run("seq 1 60000").await;
    let expected = seq(60_000);
    assert_eq!(expected.len(), 348_894);
    for max_bytes in [777, 1000, 4096, 65_536] {
        assert!(in_pages(&process, max_bytes).await == expected, "pages of {max_bytes}");
    }
    bench.ended().await;
}

#[tokio::test]
async fn r45_a_child_never_waits_for_a_reader() {
    let bench = Bench::new().await;
    let (process, status) = bench.run("head -c 20000000 /dev/zero | tr '\\0' x; echo end > r45").await;
    assert_eq!((status.state, status.output.end), (State::Exited, 20_000_000));
    assert!(bench.directory.path().join("r45").exists());
    let page = process.output().from(0).page().await.expect("a page");
    assert!((900_000..=1_048_576).contains(&(page.end - page.earliest)), "{page:?}");
    assert_eq!((page.dropped_bytes, page.start), (page.earliest, page.earliest), "what is gone is told");
    bench.ended().await;
}

#[tokio::test]
async fn r47_each_stream_keeps_its_order() {
    let bench = Bench::new().await;
    let both = "n=1; while [ $n -le 50 ]; do echo out$n; echo err$n >&2; n=$((n+1)); done";
    let (process, _) = bench.run(both).await;
    for (stream, word) in [(Stream::Stdout, "out"), (Stream::Stderr, "err")] {
        let page = process.output().stream(stream).page().await.expect("a page");
        let expected: String = (1..=50).map(|n| format!("{word}{n}\n")).collect();
        assert_eq!(page.text(), expected);
        assert!(page.chunks.iter().all(|chunk| chunk.stream == stream));
        assert_eq!(page.next_cursor, page.end, "the cursor passes the other stream's bytes");
    }
    // As read: not all of one and then all of the other, where the program's own pauses let them be read apart.
    let apart = "echo out1; sleep 0.1; echo err1 >&2; sleep 0.1; echo out2";
    assert_eq!(text(&bench.run(apart).await.0).await, "out1\nerr1\nout2\n");
    let merged: String = (1..=50).map(|n| format!("out{n}\nerr{n}\n")).collect();
    assert_eq!(text(&bench.run(&format!("exec 2>&1; {both}")).await.0).await, merged);
    bench.ended().await;
}

#[tokio::test]
async fn r48_silence_is_told_for_what_it_is() {
    let bench = Bench::new().await;
    // `tr` keeps what it writes in a buffer of its own while its output is a pipe.
    let process = bench.start("echo begun >&2; (echo line; exec sleep 64801) | tr a a").await;
    written(&process, "begun\n").await;
    let page = process.output().from(6).wait_ms(300).page().await.expect("a page");
    assert_eq!((page.chunks.len(), page.end, page.eof), (0, 6, false));
    let status = process.status().await.expect("a status");
    assert_eq!(status.state, State::Running, "it is alive");
    assert!((250..20_000).contains(&status.idle_ms), "and has been silent for {} ms", status.idle_ms);
    process.stop(None).await.expect("a stop");
    settled(&process).await;
    bench.ended().await;
}
