// node-coap as a puppet (see ../README.md): CoAP over UDP.

import coap from "coap";
import { bytes, event, hex, obeyAll } from "./puppet.js";

const peers = new Map();

// The library turns numbers that it knows into media types; these are the ones the checks use.
const FORMATS = {
  "text/plain": 0,
  "application/link-format": 40,
  "application/octet-stream": 42,
  "application/json": 50,
  "application/cbor": 60,
};

function told(response) {
  const option = (name) => response.options.find((one) => one.name === name)?.value;
  const number = (value) =>
    Buffer.isBuffer(value) ? [...value].reduce((sum, byte) => sum * 256 + byte, 0) : value;
  const format = option("Content-Format");
  return {
    code: response.code,
    payload: hex(response.payload),
    content_format: FORMATS[format] ?? number(format),
    max_age: number(option("Max-Age")),
    sequence: number(option("Observe")),
  };
}

const unsigned = (number) => {
  const octets = [];
  for (let rest = number; rest > 0; rest = Math.floor(rest / 256)) octets.unshift(rest % 256);
  return Buffer.from(octets);
};

function start(command, observe) {
  const peer = peers.get(command.peer);
  const request = coap.request({
    host: peer.host,
    port: peer.port,
    method: command.method ?? "GET",
    confirmable: command.confirmable ?? true,
    observe,
    agent: peer.agent,
  });
  if (command.path.length > 0) request.setOption("Uri-Path", command.path.map((level) => Buffer.from(level)));
  if (command.query?.length) request.setOption("Uri-Query", command.query.map((one) => Buffer.from(one)));
  if (command.content_format !== undefined) request.setOption("Content-Format", unsigned(command.content_format));
  // Whatever does not fit into a packet goes in blocks of 1024 bytes, but only if one asks.
  if ((command.payload?.length ?? 0) > 2 * 1024) request.setOption("Block1", Buffer.of(6));
  if (command.accept !== undefined) request.setOption("Accept", unsigned(command.accept));
  return request;
}

const verbs = {
  connect(command) {
    const agent = new coap.Agent({ type: "udp4" });
    peers.set(command.peer, { agent, host: command.host, port: command.port, observations: new Map() });
  },

  request(command) {
    return new Promise((resolve, reject) => {
      const request = start(command, false);
      request.on("response", (response) => resolve(told(response)));
      request.on("error", reject);
      request.end(bytes(command.payload ?? ""));
    });
  },

  observe(command) {
    return new Promise((resolve, reject) => {
      const request = start(command, true);
      request.on("error", (error) => {
        reject(error);
        event("ended", command.peer, { observation: command.observation, text: String(error) });
      });
      request.on("response", (response) => {
        const first = told(response);
        peers.get(command.peer).observations.set(command.observation, response);
        if (typeof response.close !== "function") return resolve(first);
        let begun = false;
        response.on("data", (payload) => {
          const fields = { ...told(response), payload: hex(payload) };
          if (begun) return event("message", command.peer, { observation: command.observation, ...fields });
          begun = true;
          resolve(fields);
        });
      });
      request.end();
    });
  },

  end(command) {
    peers.get(command.peer).observations.get(command.observation).close();
  },

  disconnect(command) {
    peers.get(command.peer).agent.close();
  },
};

obeyAll(verbs);
