//! lapin as a puppet: AMQP 0-9-1, one connection with one channel per peer.
//!
//! See `../../README.md` for the lines. Every command runs in a task of its own, so one may wait while others run.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use serde_json::{Map, Value, json};

const PATIENCE: Duration = Duration::from_secs(15);

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Peer {
    name: String,
    connection: Connection,
    channel: Channel,
    publishing: Channel,
}

fn write(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn event(kind: &str, peer: &str, mut fields: Value) {
    fields["event"] = json!(kind);
    fields["peer"] = json!(peer);
    write(&fields);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let peers: Arc<Mutex<HashMap<String, Arc<Peer>>>> = Arc::default();
    write(&json!({ "event": "ready" }));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let peers = Arc::clone(&peers);
        runtime.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, obey(&command, &peers)).await;
            let mut reply = match answer {
                Ok(Ok(fields)) => fields,
                Ok(Err(error)) => json!({ "error": error.to_string() }),
                Err(_) => json!({ "error": format!("no answer to {}", command["do"]) }),
            };
            reply["reply"] = command["id"].clone();
            write(&reply);
        });
    }
}

async fn obey(
    command: &Value,
    peers: &Mutex<HashMap<String, Arc<Peer>>>,
) -> Result<Value, Failure> {
    let name = word(command, "peer");
    if command["do"] == "connect" {
        let peer = connect(command, &name).await?;
        peers
            .lock()
            .expect("no holder panics")
            .insert(name, Arc::new(peer));
        return Ok(json!({}));
    }
    let peer = peers
        .lock()
        .expect("no holder panics")
        .get(&name)
        .cloned()
        .ok_or("no such peer")?;
    let short = |key: &str| ShortString::from(word(command, key));
    let flag = |key: &str| command[key] == true;
    let arguments = || table_in(&command["arguments"]);
    let delivery = command["delivery"].as_u64().unwrap_or_default();
    match word(command, "do").as_str() {
        "declare" => {
            let options = QueueDeclareOptions {
                passive: flag("passive"),
                durable: flag("durable"),
                exclusive: flag("exclusive"),
                auto_delete: flag("auto_delete"),
                nowait: false,
            };
            let queue = peer
                .channel
                .queue_declare(short("queue"), options, arguments())
                .await?;
            let (messages, consumers) = (queue.message_count(), queue.consumer_count());
            return Ok(
                json!({ "queue": queue.name().as_str(), "messages": messages, "consumers": consumers }),
            );
        }
        "delete" => {
            peer.channel
                .queue_delete(short("queue"), QueueDeleteOptions::default())
                .await?;
        }
        "bind" => {
            let options = QueueBindOptions::default();
            peer.channel
                .queue_bind(
                    short("queue"),
                    short("exchange"),
                    short("key"),
                    options,
                    arguments(),
                )
                .await?;
        }
        "consume" => return consume(command, &peer).await,
        "cancel" => {
            peer.channel
                .basic_cancel(short("tag"), BasicCancelOptions::default())
                .await?
        }
        "publish" => return publish(command, &peer).await,
        "ack" => {
            peer.channel
                .basic_ack(
                    delivery,
                    BasicAckOptions {
                        multiple: flag("multiple"),
                    },
                )
                .await?;
        }
        "nack" => {
            let requeue = command["requeue"] != false;
            peer.channel
                .basic_nack(
                    delivery,
                    BasicNackOptions {
                        multiple: flag("multiple"),
                        requeue,
                    },
                )
                .await?;
        }
        "disconnect" => {
            peer.connection.close(200, "done".into()).await?;
            event("closed", &peer.name, json!({}));
        }
        other => return Err(format!("unknown command {other}").into()),
    }
    Ok(json!({}))
}

async fn connect(command: &Value, name: &str) -> Result<Peer, Failure> {
    let or = |key: &str, otherwise: &str| command[key].as_str().unwrap_or(otherwise).to_owned();
    let vhost = or("vhost", "/").replace('/', "%2f");
    let uri = format!(
        "amqp://{}:{}@{}:{}/{vhost}?heartbeat={}",
        or("user", "guest"),
        or("password", "guest"),
        word(command, "host"),
        command["port"],
        command["heartbeat"].as_u64().unwrap_or(30),
    );
    let connection = Connection::connect(&uri, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let publishing = connection.create_channel().await?;
    publishing
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let mut events = connection.events_listener();
    let owner = name.to_owned();
    tokio::spawn(async move {
        while let Some(happened) = events.next().await {
            if let lapin::Event::Error(error) = happened {
                event("closed", &owner, json!({ "text": error.to_string() }));
                return;
            }
        }
    });
    Ok(Peer {
        name: name.to_owned(),
        connection,
        channel,
        publishing,
    })
}

async fn consume(command: &Value, peer: &Peer) -> Result<Value, Failure> {
    if let Some(prefetch) = command["prefetch"]
        .as_u64()
        .and_then(|count| u16::try_from(count).ok())
    {
        peer.channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
    }
    let options = BasicConsumeOptions {
        no_ack: command["no_ack"] == true,
        exclusive: command["exclusive"] == true,
        ..BasicConsumeOptions::default()
    };
    let (queue, tag) = (word(command, "queue").into(), word(command, "tag").into());
    let mut consumer = peer
        .channel
        .basic_consume(queue, tag, options, table_in(&command["arguments"]))
        .await?;
    let tag = consumer.tag().as_str().to_owned();
    let (name, own) = (peer.name.clone(), tag.clone());
    tokio::spawn(async move {
        while let Some(Ok(delivery)) = consumer.next().await {
            let told = json!({
                "exchange": delivery.exchange.as_str(), "key": delivery.routing_key.as_str(), "tag": own,
                "delivery": delivery.delivery_tag, "redelivered": delivery.redelivered, "payload": hex(&delivery.data),
                "properties": properties_out(&delivery.properties),
            });
            event("message", &name, told);
        }
        event("cancelled", &name, json!({ "tag": own }));
    });
    Ok(json!({ "tag": tag }))
}

async fn publish(command: &Value, peer: &Peer) -> Result<Value, Failure> {
    let same = command["same_channel"] == true;
    let channel = if same {
        &peer.channel
    } else {
        &peer.publishing
    };
    let options = BasicPublishOptions {
        mandatory: command["mandatory"] == true,
        immediate: false,
    };
    let (exchange, key) = (
        word(command, "exchange").into(),
        word(command, "key").into(),
    );
    let payload = unhex(&word(command, "payload"));
    let properties = properties_in(&command["properties"]);
    let outcome = match channel
        .basic_publish(exchange, key, options, &payload, properties)
        .await?
        .await?
    {
        Confirmation::Ack(Some(_)) => "returned",
        Confirmation::Ack(None) => "confirmed",
        Confirmation::Nack(_) => "refused",
        Confirmation::NotRequested => "sent",
    };
    Ok(json!({ "outcome": outcome }))
}

fn properties_in(wanted: &Value) -> BasicProperties {
    let mut properties = BasicProperties::default();
    let Some(wanted) = wanted.as_object() else {
        return properties;
    };
    for (name, value) in wanted {
        let text = || ShortString::from(value.as_str().unwrap_or_default());
        let byte = || {
            value
                .as_u64()
                .and_then(|number| u8::try_from(number).ok())
                .unwrap_or_default()
        };
        properties = match name.as_str() {
            "content_type" => properties.with_content_type(text()),
            "content_encoding" => properties.with_content_encoding(text()),
            "delivery_mode" => properties.with_delivery_mode(byte()),
            "priority" => properties.with_priority(byte()),
            "correlation_id" => properties.with_correlation_id(text()),
            "reply_to" => properties.with_reply_to(text()),
            "expiration" => properties.with_expiration(text()),
            "message_id" => properties.with_message_id(text()),
            "timestamp" => properties.with_timestamp(value.as_u64().unwrap_or_default()),
            "type" => properties.with_type(text()),
            "user_id" => properties.with_user_id(text()),
            "app_id" => properties.with_app_id(text()),
            "headers" => properties.with_headers(table_in(value)),
            other => panic!("no property {other}"),
        };
    }
    properties
}

fn properties_out(sent: &BasicProperties) -> Value {
    let mut told = Map::new();
    let texts = [
        ("content_type", sent.content_type()),
        ("content_encoding", sent.content_encoding()),
        ("correlation_id", sent.correlation_id()),
        ("reply_to", sent.reply_to()),
        ("expiration", sent.expiration()),
        ("message_id", sent.message_id()),
        ("type", sent.kind()),
        ("user_id", sent.user_id()),
        ("app_id", sent.app_id()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            told.insert(name.to_owned(), json!(text.as_str()));
        }
    }
    for (name, byte) in [
        ("delivery_mode", sent.delivery_mode()),
        ("priority", sent.priority()),
    ] {
        if let Some(byte) = byte {
            told.insert(name.to_owned(), json!(byte));
        }
    }
    if let Some(timestamp) = sent.timestamp() {
        told.insert("timestamp".to_owned(), json!(timestamp));
    }
    if let Some(headers) = sent.headers() {
        told.insert("headers".to_owned(), table_out(headers));
    }
    Value::Object(told)
}

fn table_in(pairs: &Value) -> FieldTable {
    let mut table = FieldTable::default();
    for pair in pairs.as_array().into_iter().flatten() {
        table.insert(
            pair[0].as_str().unwrap_or_default().into(),
            value_in(&pair[1]),
        );
    }
    table
}

fn value_in(typed: &Value) -> AMQPValue {
    let value = &typed[1];
    match typed[0].as_str().unwrap_or_default() {
        "text" => AMQPValue::LongString(LongString::from(value.as_str().unwrap_or_default())),
        "bool" => AMQPValue::Boolean(value == true),
        "int" => AMQPValue::LongLongInt(value.as_i64().unwrap_or_default()),
        "float" => AMQPValue::Double(value.as_f64().unwrap_or_default()),
        "bytes" => AMQPValue::ByteArray(unhex(value.as_str().unwrap_or_default()).into()),
        "time" => AMQPValue::Timestamp(value.as_u64().unwrap_or_default()),
        "list" => {
            let items: Vec<AMQPValue> = value
                .as_array()
                .into_iter()
                .flatten()
                .map(value_in)
                .collect();
            AMQPValue::FieldArray(FieldArray::from(items))
        }
        "map" => AMQPValue::FieldTable(table_in(value)),
        _ => AMQPValue::Void,
    }
}

fn table_out(table: &FieldTable) -> Value {
    table
        .inner()
        .iter()
        .map(|(name, value)| json!([name.as_str(), value_out(value)]))
        .collect()
}

fn value_out(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(v) => json!(["bool", v]),
        AMQPValue::ShortShortInt(v) => json!(["int", v]),
        AMQPValue::ShortShortUInt(v) => json!(["int", v]),
        AMQPValue::ShortInt(v) => json!(["int", v]),
        AMQPValue::ShortUInt(v) => json!(["int", v]),
        AMQPValue::LongInt(v) => json!(["int", v]),
        AMQPValue::LongUInt(v) => json!(["int", v]),
        AMQPValue::LongLongInt(v) => json!(["int", v]),
        AMQPValue::Float(v) => json!(["float", v]),
        AMQPValue::Double(v) => json!(["float", v]),
        AMQPValue::DecimalValue(v) => {
            json!(["float", f64::from(v.value) / 10f64.powi(i32::from(v.scale))])
        }
        AMQPValue::ShortString(v) => json!(["text", v.as_str()]),
        AMQPValue::LongString(v) => json!(["text", String::from_utf8_lossy(v.as_bytes())]),
        AMQPValue::FieldArray(v) => json!([
            "list",
            v.as_slice().iter().map(value_out).collect::<Vec<_>>()
        ]),
        AMQPValue::Timestamp(v) => json!(["time", v]),
        AMQPValue::FieldTable(v) => json!(["map", table_out(v)]),
        AMQPValue::ByteArray(v) => json!(["bytes", hex(v.as_slice())]),
        AMQPValue::Void => json!(["null", null]),
    }
}

fn word(command: &Value, key: &str) -> String {
    command[key].as_str().unwrap_or_default().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let pairs = bytes.iter().flat_map(|byte| {
        [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]
    });
    pairs.map(char::from).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
    digits
        .as_bytes()
        .chunks_exact(2)
        .filter_map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).ok())
        .collect()
}
