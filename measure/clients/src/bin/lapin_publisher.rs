//! lapin: PORT MESSAGES SIZE QOS.

use std::collections::VecDeque;
use std::time::Instant;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::task::JoinSet;

/// Confirms that are awaited later.
const BEHIND: usize = 1000;
/// Tasks that publish at the same time: a single one waits for the socket after each message.
const TASKS: u64 = 64;

#[tokio::main]
async fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("numbers"))
        .collect();
    let [port, messages, size, qos] = args[..] else {
        panic!("PORT MESSAGES SIZE QOS")
    };
    let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    if qos > 0 {
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .expect("confirms");
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let count = messages / TASKS + u64::from(task < messages % TASKS);
        tasks.spawn(publish(channel.clone(), count, size as usize, qos > 0));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("published");
    }
    let seconds = begun.elapsed().as_secs_f64();
    connection.close(200, "done".into()).await.expect("closed");
    println!("{{\"client\":\"lapin\",\"messages\":{messages},\"seconds\":{seconds}}}");
}

async fn publish(channel: Channel, messages: u64, size: usize, has_confirms: bool) {
    let payload = vec![b'x'; size];
    let mut behind = VecDeque::new();
    for _ in 0..messages {
        let options = BasicPublishOptions::default();
        let confirm = channel
            .basic_publish(
                "amq.topic".into(),
                "speed.1".into(),
                options,
                &payload,
                BasicProperties::default(),
            )
            .await
            .expect("published");
        if has_confirms {
            behind.push_back(confirm);
            if behind.len() > BEHIND / TASKS as usize {
                behind
                    .pop_front()
                    .expect("there is one")
                    .await
                    .expect("confirmed");
            }
        }
    }
    for confirm in behind {
        confirm.await.expect("confirmed");
    }
}
