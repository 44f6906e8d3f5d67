// amqplib as a puppet (see ../README.md): AMQP 0-9-1, one connection with one channel per peer.

import { readFileSync } from "node:fs";
import amqp from "amqplib";
import { bytes, event, hex, obeyAll } from "./puppet.js";

const peers = new Map();

const verbs = {
  async connect(command) {
    const trusting = command.ca ? { ca: [readFileSync(command.ca)] } : {};
    const where = {
      protocol: command.ca ? "amqps" : "amqp",
      hostname: command.host,
      port: command.port,
      username: command.user ?? "guest",
      password: command.password ?? "guest",
      vhost: command.vhost ?? "/",
      heartbeat: command.heartbeat ?? 30,
    };
    const connection = await amqp.connect(where, trusting);
    const peer = { connection, name: command.peer };
    peers.set(command.peer, peer);
    let reason = {};
    connection.on("error", (error) => (reason = { code: error.code, text: error.message }));
    connection.on("close", () => event("closed", command.peer, reason));
    peer.channel = await connection.createChannel();
    peer.publishing = await connection.createConfirmChannel();
    for (const channel of [peer.channel, peer.publishing]) channel.on("error", () => {});
    return {};
  },

  async declare(command) {
    const { channel } = peers.get(command.peer);
    const answer = command.passive
      ? await channel.checkQueue(command.queue)
      : await channel.assertQueue(command.queue, {
          durable: command.durable ?? false,
          exclusive: command.exclusive ?? false,
          autoDelete: command.auto_delete ?? false,
          arguments: tableIn(command.arguments),
        });
    return { queue: answer.queue, messages: answer.messageCount, consumers: answer.consumerCount };
  },

  async delete(command) {
    await peers.get(command.peer).channel.deleteQueue(command.queue);
  },

  async bind(command) {
    const { channel } = peers.get(command.peer);
    await channel.bindQueue(command.queue, command.exchange, command.key, tableIn(command.arguments));
  },

  async consume(command) {
    const { channel, name } = peers.get(command.peer);
    if (command.prefetch) await channel.prefetch(command.prefetch);
    const take = (message) => {
      if (message === null) return event("cancelled", name, {});
      const { fields, properties, content } = message;
      event("message", name, {
        exchange: fields.exchange,
        key: fields.routingKey,
        tag: fields.consumerTag,
        delivery: fields.deliveryTag,
        redelivered: fields.redelivered,
        payload: hex(content),
        properties: propertiesOut(properties),
      });
    };
    const answer = await channel.consume(command.queue, take, {
      noAck: command.no_ack ?? false,
      exclusive: command.exclusive ?? false,
      consumerTag: command.tag,
      arguments: tableIn(command.arguments),
    });
    return { tag: answer.consumerTag };
  },

  async cancel(command) {
    await peers.get(command.peer).channel.cancel(command.tag);
  },

  publish(command) {
    const { channel, publishing } = peers.get(command.peer);
    const options = { ...propertiesIn(command.properties), mandatory: command.mandatory ?? false };
    if (command.same_channel) {
      channel.publish(command.exchange, command.key, bytes(command.payload), options);
      return { outcome: "sent" };
    }
    return new Promise((resolve) => {
      let returned = false;
      const back = () => (returned = true);
      publishing.on("return", back);
      publishing.publish(command.exchange, command.key, bytes(command.payload), options, (error) => {
        publishing.off("return", back);
        resolve({ outcome: error ? "refused" : returned ? "returned" : "confirmed" });
      });
    });
  },

  ack(command) {
    peers.get(command.peer).channel.ack({ fields: { deliveryTag: command.delivery } }, command.multiple ?? false);
  },

  nack(command) {
    const { channel } = peers.get(command.peer);
    channel.nack({ fields: { deliveryTag: command.delivery } }, command.multiple ?? false, command.requeue ?? true);
  },

  // All in one tick: what the library flushes later stands behind connection.close.
  async publish_and_close(command) {
    const { connection, channel } = peers.get(command.peer);
    for (let sent = 0; sent < command.count; sent++) channel.sendToQueue(command.queue, bytes(command.payload));
    await connection.close();
  },

  async disconnect(command) {
    await peers.get(command.peer).connection.close();
  },
};

const NAMES = {
  content_type: "contentType",
  content_encoding: "contentEncoding",
  delivery_mode: "deliveryMode",
  priority: "priority",
  correlation_id: "correlationId",
  reply_to: "replyTo",
  expiration: "expiration",
  message_id: "messageId",
  timestamp: "timestamp",
  type: "type",
  user_id: "userId",
  app_id: "appId",
};

function propertiesIn(wanted = {}) {
  const options = {};
  for (const [ours, theirs] of Object.entries(NAMES)) if (wanted[ours] !== undefined) options[theirs] = wanted[ours];
  if (wanted.headers) options.headers = tableIn(wanted.headers);
  return options;
}

function propertiesOut(sent) {
  const properties = {};
  for (const [ours, theirs] of Object.entries(NAMES)) if (sent[theirs] !== undefined) properties[ours] = sent[theirs];
  // The library gives an empty table to a message that has none.
  const headers = Object.entries(sent.headers ?? {}).map(([name, value]) => [name, valueOut(value)]);
  if (headers.length) properties.headers = headers;
  return properties;
}

function tableIn(pairs) {
  return pairs && Object.fromEntries(pairs.map(([name, value]) => [name, valueIn(value)]));
}

function valueIn([kind, value]) {
  if (kind === "bytes") return bytes(value);
  if (kind === "time") return { "!": "timestamp", value };
  if (kind === "float") return { "!": "double", value };
  if (kind === "list") return value.map(valueIn);
  if (kind === "map") return tableIn(value);
  return value;
}

function valueOut(value) {
  if (value === null || value === undefined) return ["null", null];
  if (typeof value === "boolean") return ["bool", value];
  if (typeof value === "number") return Number.isInteger(value) ? ["int", value] : ["float", value];
  if (typeof value === "string") return ["text", value];
  if (Buffer.isBuffer(value)) return ["bytes", hex(value)];
  if (value["!"] === "timestamp") return ["time", value.value];
  if (Array.isArray(value)) return ["list", value.map(valueOut)];
  return ["map", Object.entries(value).map(([name, item]) => [name, valueOut(item)])];
}

obeyAll(verbs);
