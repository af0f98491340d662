//! Who sees which process, and what becomes of it when its agent changes or goes.

use procession::protocol::verb::agent::{Leaving, Sees};
use procession::{AgentName, Code, List, Reason, State};

use super::{labelled, lives, named, refused};
use crate::support::{Bench, name};

fn agent(text: &str) -> AgentName {
    text.parse().expect("an agent's name")
}

#[tokio::test]
async fn an_agent_sees_its_own_or_all_of_the_session_and_the_operator_sees_all() {
    let bench = Bench::new().await;
    let session = bench.host.session(name("s"));
    let wide = session.open_agent(agent("wide"), Sees::Session).await.expect("opened");
    let narrow = session.open_agent(agent("narrow"), Sees::Own).await.expect("opened");
    refused(session.open_agent(agent("narrow"), Sees::Session).await, Code::Conflict);
    let of_narrow = narrow.start(labelled("web")).await.expect("a start");
    let of_wide = wide.start(labelled("db")).await.expect("a start");
    bench.agent_of("t", "wide").start(labelled("web")).await.expect("another session's");

    assert_eq!(wide.process(of_narrow.id().into()).await.expect("seen").id(), of_narrow.id());
    assert_eq!(wide.process(named("web")).await.expect("by its label").id(), of_narrow.id());
    let error = refused(narrow.process(of_wide.id().into()).await, Code::UnknownProcess);
    assert!(error.message.contains("(web)") && !error.message.contains("(db)"), "its own are named: {error}");
    refused(narrow.process(named("db")).await, Code::UnknownProcess);
    refused(bench.agent_of("t", "wide").process(of_wide.id().into()).await, Code::UnknownProcess);
    for (caller, wanted) in [(&wide, 2), (&narrow, 1), (&session.operator(), 2)] {
        let list = caller.list(List::default()).await.expect("a list");
        assert_eq!((list.counts.live, list.processes.expect("rows").len()), (wanted, wanted as usize));
    }
    let stopped = session.operator().process(named("web")).await.expect("seen").stop(None).await;
    assert_eq!(stopped.expect("a stop").state, State::Stopped);
    bench.ended().await;
}

#[tokio::test]
async fn a_label_names_the_live_process_and_without_one_the_newest() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let older = agent.start(labelled("web")).await.expect("a start");
    let newer = agent.start(labelled("web")).await.expect("a start");
    newer.stop(None).await.expect("a stop");
    assert_eq!(agent.process(named("web")).await.expect("the live one").id(), older.id());
    older.stop(None).await.expect("a stop");
    assert_eq!(agent.process(named("web")).await.expect("the newest").id(), newer.id());
    for unknown in ["", "web2", "p-aaaaaaaaaaaaa", "No Label", "we"] {
        refused(agent.process(named(unknown)).await, Code::UnknownProcess);
    }
    bench.ended().await;
}

#[tokio::test]
async fn a_transferred_process_is_the_other_agents() {
    let bench = Bench::new().await;
    let session = bench.host.session(name("s"));
    let (giver, taker) = (session.agent(agent("a")), session.agent(agent("b")));
    let process = giver.start(labelled("web")).await.expect("a start");
    session.transfer(process.id().into(), agent("b")).await.expect("given");
    refused(process.status().await, Code::UnknownProcess);
    let taken = taker.process(named("web")).await.expect("the taker's");
    assert_eq!(taken.status().await.expect("a status").agent, agent("b"));
    let restarted = taken.restart().await.expect("a restart");
    assert_eq!(restarted.status().await.expect("a status").agent, agent("b"));
    let holders = bench.host.status().await.expect("a status").places.holders;
    assert_eq!(holders.iter().map(|holder| &holder.agent).collect::<Vec<_>>(), [&agent("b")]);
    refused(session.transfer(named("nothing"), agent("b")).await, Code::UnknownProcess);
    bench.ended().await;
}

#[tokio::test]
async fn a_closed_agents_processes_are_stopped_or_become_mains() {
    let bench = Bench::new().await;
    let session = bench.host.session(name("s"));
    let (a, b) = (session.agent(agent("a")), session.agent(agent("b")));
    let (first, second) = (a.start(lives()).await.expect("a start"), a.start(lives()).await.expect("a start"));
    let third = b.start(labelled("web")).await.expect("a start");
    let closed = session.close_agent(agent("a"), Leaving::Stop).await.expect("closed");
    assert_eq!((closed.stopped, closed.transferred, closed.unconfirmed.len()), (2, 0, 0));
    for process in [&first, &second] {
        let ended = session.operator().process(process.id().into()).await.expect("kept").status().await;
        assert_eq!(ended.expect("a status").reason, Some(Reason::StopRequested));
    }
    let closed = session.close_agent(agent("b"), Leaving::Transfer).await.expect("closed");
    assert_eq!((closed.stopped, closed.transferred), (0, 1));
    let main = session.agent(AgentName::main()).process(named("web")).await.expect("main's");
    let status = main.status().await.expect("a status");
    assert_eq!((main.id(), status.state, status.agent), (third.id(), State::Running, AgentName::main()));
    // Closed, it can be opened as something else.
    session.open_agent(agent("b"), Sees::Session).await.expect("opened").process(named("web")).await.expect("seen");
    bench.ended().await;
}

#[tokio::test]
async fn an_agent_that_is_closed_while_its_start_is_under_way_leaves_nothing_running() {
    let bench = Bench::new().await;
    let session = bench.host.session(name("s"));
    for _ in 0..10 {
        let start = session.agent(agent("a"));
        let (started, closed) = tokio::join!(start.start(lives()), session.close_agent(agent("a"), Leaving::Stop));
        assert_eq!(closed.expect("closed").stopped, 1);
        let id = started.expect("a start that was stopped").id().clone();
        let status = session.operator().process((&id).into()).await.expect("kept").status().await.expect("a status");
        assert_eq!(status.reason, Some(Reason::StopRequested));
    }
    bench.ended().await;
}
