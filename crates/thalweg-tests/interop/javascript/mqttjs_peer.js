// MQTT.js as a puppet (see ../README.md): MQTT 3.1, 3.1.1 and 5 over TCP, TLS, WebSocket and secure WebSocket.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import mqtt from "mqtt";

const PATIENCE_MS = 15_000;
const peers = new Map();

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const hex = (bytes) => (bytes === undefined ? undefined : Buffer.from(bytes).toString("hex"));
const bytes = (text) => Buffer.from(text, "hex");

const verbs = {
  connect(command) {
    const scheme = { tcp: "mqtt", tls: "mqtts", ws: "ws", wss: "wss" }[command.transport];
    const path = command.transport.startsWith("ws") ? "/mqtt" : "";
    const options = {
      clientId: command.client_id,
      protocolVersion: command.version,
      protocolId: command.version === 3 ? "MQIsdp" : "MQTT",
      clean: command.clean,
      keepalive: 30,
      reconnectPeriod: 0,
      connectTimeout: PATIENCE_MS,
      resubscribe: false,
      properties: {},
    };
    if (command.ca) options.ca = readFileSync(command.ca);
    if (command.version === 5) {
      if (command.expiry !== undefined) options.properties.sessionExpiryInterval = command.expiry;
      if (command.topic_alias_maximum) options.properties.topicAliasMaximum = command.topic_alias_maximum;
    } else {
      delete options.properties;
    }
    if (command.will) {
      options.will = { ...command.will, payload: bytes(command.will.payload) };
      options.will.properties = propertiesOut(command.version, command.will.properties);
    }
    return new Promise((resolve, reject) => {
      const client = mqtt.connect(`${scheme}://${command.host}:${command.port}${path}`, options);
      const peer = { client, version: command.version, closedBecause: null };
      peers.set(command.peer, peer);
      client.on("message", (topic, payload, packet) => write(messageEvent(command.peer, topic, payload, packet)));
      client.on("disconnect", (packet) => (peer.closedBecause = packet.reasonCode ?? null));
      client.on("close", () => {
        write({ event: "closed", peer: command.peer, reason: peer.closedBecause });
        reject(new Error("closed before CONNACK"));
      });
      client.on("error", reject);
      client.on("connect", (connack) =>
        resolve({ session_present: connack.sessionPresent, reason: connack.reasonCode ?? connack.returnCode ?? 0 }),
      );
    });
  },

  subscribe(command) {
    const { client } = peers.get(command.peer);
    const filters = {};
    for (const f of command.filters) {
      filters[f.filter] = { qos: f.qos, nl: f.no_local, rap: f.retain_as_published, rh: f.retain_handling };
    }
    const options = command.identifier ? { properties: { subscriptionIdentifier: command.identifier } } : {};
    return new Promise((resolve, reject) =>
      client.subscribe(filters, options, (error, _granted, packet) =>
        packet ? resolve({ reasons: packet.granted }) : reject(error),
      ),
    );
  },

  unsubscribe(command) {
    const { client, version } = peers.get(command.peer);
    return new Promise((resolve, reject) =>
      client.unsubscribe(command.filters, (error, packet) =>
        error ? reject(error) : resolve({ reasons: version === 5 ? packet.granted : [] }),
      ),
    );
  },

  publish(command) {
    const { client, version } = peers.get(command.peer);
    const options = { qos: command.qos, retain: command.retain };
    options.properties = propertiesOut(version, command.properties);
    return new Promise((resolve, reject) =>
      client.publish(command.topic, bytes(command.payload), options, (error, packet) =>
        error ? reject(error) : resolve({ reason: packet?.reasonCode ?? 0 }),
      ),
    );
  },

  disconnect(command) {
    const { client } = peers.get(command.peer);
    return client.endAsync().then(() => ({}));
  },
};

function propertiesOut(version, wanted = {}) {
  if (version !== 5) return undefined;
  const properties = {};
  if (wanted.content_type !== undefined) properties.contentType = wanted.content_type;
  if (wanted.response_topic !== undefined) properties.responseTopic = wanted.response_topic;
  if (wanted.correlation !== undefined) properties.correlationData = bytes(wanted.correlation);
  if (wanted.expiry !== undefined) properties.messageExpiryInterval = wanted.expiry;
  if (wanted.format !== undefined) properties.payloadFormatIndicator = wanted.format === 1;
  if (wanted.alias !== undefined) properties.topicAlias = wanted.alias;
  if (wanted.user !== undefined) {
    // The library keeps user properties by name: order holds within a name, and among names by first appearance.
    properties.userProperties = {};
    for (const [name, value] of wanted.user) (properties.userProperties[name] ??= []).push(value);
  }
  return properties;
}

function messageEvent(peer, topic, payload, packet) {
  const sent = packet.properties ?? {};
  const user = Object.entries(sent.userProperties ?? {}).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, value]),
  );
  const properties = {
    user: user.length ? user : undefined,
    content_type: sent.contentType,
    response_topic: sent.responseTopic,
    correlation: hex(sent.correlationData),
    expiry: sent.messageExpiryInterval,
    format: sent.payloadFormatIndicator === undefined ? undefined : Number(sent.payloadFormatIndicator),
    identifiers: sent.subscriptionIdentifier === undefined ? undefined : [sent.subscriptionIdentifier].flat(),
  };
  return { event: "message", peer, topic, payload: hex(payload), qos: packet.qos, retain: packet.retain, properties };
}

async function obey(command) {
  let timer;
  const patience = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer to ${command.do}`)), PATIENCE_MS);
  });
  try {
    const fields = await Promise.race([verbs[command.do](command), patience]);
    write({ reply: command.id, ...fields });
  } catch (error) {
    write({ reply: command.id, error: String(error) });
  }
  clearTimeout(timer);
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => obey(JSON.parse(line)));
input.on("close", () => process.exit(0));
write({ event: "ready" });
