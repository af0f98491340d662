//! An agent server in small: three conversations at once, each with its own session. A model would choose the
//! calls; here each conversation starts a server, waits for its ready line, runs a command beside it and ends.

use procession::{Agent, Error, Exec, Host, Spec};

async fn converse(agent: Agent, name: &str) -> Result<(), Error> {
    let server = agent.start(Spec::command("sleep 0.2; echo ready; exec sleep 60")).await?;
    let page = server.output().wait_ms(5000).page().await?;
    println!("{name}: the server says {:?}", page.text().trim_end());

    let done = agent.exec(Exec::command(format!("echo tests of {name} pass"))).await?;
    println!("{name}: {} ({:?})", done.output.text.trim_end(), done.process.state);

    let status = server.stop(None).await?;
    println!("{name}: the server is {:?}, cleanup {:?}", status.state, status.cleanup);
    Ok(())
}

fn main() -> Result<(), Error> {
    // Before there is any thread, so not within `#[tokio::main]`.
    procession::init()?;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Error> {
    let host = Host::builder().start().await?;
    let names = ["ada", "grace", "linus"];
    let agent = |name: &str| Ok::<_, Error>(host.session(name.parse()?).agent("main".parse()?));
    let talks = names.map(|name| async move { converse(agent(name)?, name).await });
    for talk in futures_util::future::join_all(talks).await {
        talk?;
    }
    let ended = host.shutdown().await?;
    println!("left at the end: {}", ended.unconfirmed.len());
    Ok(())
}
