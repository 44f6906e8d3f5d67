// @stomp/stompjs as a puppet (see ../README.md): STOMP over WebSocket, as in a browser.

import { readFileSync } from "node:fs";
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";
import { bytes, event, hex, obeyAll } from "./puppet.js";

const peers = new Map();
let receipts = 0;

const verbs = {
  connect(command) {
    return new Promise((resolve, reject) => {
      const client = new Client({
        webSocketFactory: () =>
          new WebSocket(
            `${command.ca ? "wss" : "ws"}://${command.host}:${command.port}/ws`,
            ["v12.stomp", "v11.stomp"],
            command.ca ? { ca: readFileSync(command.ca) } : {},
          ),
        connectHeaders: {
          login: command.user ?? "guest",
          passcode: command.password ?? "guest",
          host: command.vhost ?? "/",
        },
        reconnectDelay: 0,
        heartbeatIncoming: (command.heartbeat ?? 10) * 1000,
        heartbeatOutgoing: (command.heartbeat ?? 10) * 1000,
        splitLargeFrames: false,
      });
      const peer = { client, name: command.peer, failed: null };
      peers.set(command.peer, peer);
      client.onConnect = (frame) => resolve({ headers: Object.entries(frame.headers) });
      client.onStompError = (frame) => {
        peer.failed = `ERROR ${frame.headers.message}: ${frame.body}`;
        event("error", command.peer, { text: peer.failed });
        peer.fail?.(new Error(peer.failed));
        reject(new Error(peer.failed));
      };
      client.onWebSocketClose = () => {
        event("closed", command.peer, {});
        peer.fail?.(new Error("closed"));
        reject(new Error("closed before CONNECTED"));
      };
      client.onWebSocketError = (error) => reject(new Error(`no connection: ${error.message}`));
      client.onUnhandledMessage = (message) => arrived(command.peer, message);
      client.activate();
    });
  },

  // Any frame, through the library's own calls where it has one for the command.
  frame(command) {
    const peer = peers.get(command.peer);
    const headers = Object.fromEntries(command.headers);
    const receipt = `receipt-${++receipts}`;
    if (!command.fire) headers.receipt = receipt;
    const answered = new Promise((resolve, reject) => {
      if (command.fire) return resolve({});
      peer.fail = reject;
      peer.client.watchForReceipt(receipt, () => resolve({}));
    });
    send(peer, command, headers);
    return answered;
  },

  disconnect(command) {
    return peers.get(command.peer).client.deactivate().then(() => ({}));
  },
};

function send({ client, name }, command, headers) {
  const { destination, id } = headers;
  switch (command.command) {
    case "SEND": {
      const binaryBody = new Uint8Array(bytes(command.payload ?? ""));
      delete headers.destination;
      return client.publish({ destination, binaryBody, headers });
    }
    case "SUBSCRIBE":
      return client.subscribe(destination, (message) => arrived(name, message), headers);
    case "UNSUBSCRIBE":
      return client.unsubscribe(id, headers);
    case "ACK":
      return client.ack(id, headers["subscription"], headers);
    case "NACK":
      return client.nack(id, headers["subscription"], headers);
    default:
      // The library's own `begin`, `commit` and `abort` take no receipt; they write frames the same way.
      return client._stompHandler._transmit({ command: command.command, headers });
  }
}

function arrived(name, message) {
  event("message", name, { headers: Object.entries(message.headers), payload: hex(message.binaryBody) });
}

obeyAll(verbs);
