// zeromq.js as a puppet (see ../README.md): a PUB and a SUB socket.

import { Publisher, Subscriber } from "zeromq";
import { bytes, event, hex, obeyAll } from "./puppet.js";

const peers = new Map();

const verbs = {
  async connect(command) {
    const peer = { name: command.peer, pub: new Publisher({ linger: 0 }), sub: new Subscriber({ linger: 0 }), marks: 0 };
    peers.set(command.peer, peer);
    for (const socket of [peer.pub, peer.sub]) socket.connect(`tcp://${command.host}:${command.port}`);
    listen(peer);
    await meet(peer);
    return {};
  },

  async subscribe(command) {
    const peer = peers.get(command.peer);
    peer.sub.subscribe(bytes(command.prefix));
    await meet(peer);
    return {};
  },

  async send(command) {
    await peers.get(command.peer).pub.send(command.frames.map(bytes));
    return {};
  },

  async disconnect(command) {
    const peer = peers.get(command.peer);
    peer.pub.close();
    peer.sub.close();
    return {};
  },
};

async function listen(peer) {
  for await (const frames of peer.sub) {
    if (frames[0].toString().startsWith("$mark/")) peer.heard?.(frames[0].toString());
    else event("message", peer.name, { frames: frames.map(hex) });
  }
}

// Waits until what PUB sends reaches SUB: nothing else says that subscriptions are in force.
async function meet(peer) {
  const mark = `$mark/${peer.name}/${++peer.marks}/`;
  let isThere = false;
  peer.heard = (name) => (isThere ||= name === mark);
  peer.sub.subscribe(mark);
  while (!isThere) {
    await peer.pub.send([mark, ""]);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  peer.sub.unsubscribe(mark);
}

obeyAll(verbs);
