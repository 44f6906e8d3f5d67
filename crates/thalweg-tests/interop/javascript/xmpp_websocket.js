// @xmpp/client over WebSocket (RFC 7395), as in a browser: `xmpp_websocket.js ANYONE PEOPLE` takes the ports on 127.0.0.1, prints
// one line per pattern, and fails at the first that does not get what it should. At PEOPLE users log in by name.

import assert from "node:assert/strict";
import { client, jid, xml } from "@xmpp/client";
import { WebSocket } from "ws";

// Node has one of its own from version 22.
globalThis.WebSocket ??= WebSocket;

const [ANYONE, PEOPLE] = process.argv.slice(2);
const PUBSUB = "http://jabber.org/protocol/pubsub";
const SERVICE = "pubsub.localhost";
const PATIENCE_MS = 10_000;

const within = (promise, what) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// A client, and what it has received.
async function connected(username) {
  const port = username ? PEOPLE : ANYONE;
  const entity = client({
    service: `ws://127.0.0.1:${port}/xmpp-websocket`,
    domain: "localhost",
    ...(username && { username, password: "wherefore" }),
  });
  const messages = [];
  const waiting = [];
  entity.on("error", () => {});
  entity.on("stanza", (stanza) => {
    if (!stanza.is("message")) return;
    const taker = waiting.shift();
    if (taker) taker(stanza);
    else messages.push(stanza);
  });
  entity.next = () =>
    messages.length ? Promise.resolve(messages.shift()) : within(new Promise((taken) => waiting.push(taken)), "message");
  const address = await within(entity.start(), "connection");
  entity.own = address.toString();
  await entity.send(xml("presence"));
  return entity;
}

const ask = (entity, type, action) =>
  entity.iqCaller.request(xml("iq", { type, to: SERVICE }, xml("pubsub", { xmlns: PUBSUB }, action)), PATIENCE_MS);

const publish = (entity, node, id, text) =>
  ask(entity, "set", xml("publish", { node }, xml("item", { id }, xml("text", { xmlns: "urn:thalweg:payload:0" }, text))));

const subscribe = (entity, node) => ask(entity, "set", xml("subscribe", { node, jid: entity.own }));

function itemOf(message) {
  const items = message.getChild("event").getChild("items");
  const item = items.getChild("item");
  return [items.attrs.node, item.attrs.id, item.children[0].text()];
}

const patterns = {
  async publish_and_notify() {
    const [publisher, subscriber] = [await connected(), await connected()];
    await subscribe(subscriber, "browser/1");
    for (let number = 0; number < 100; number++) await publish(publisher, "browser/1", `i${number}`, `<${number}> & more`);
    for (let number = 0; number < 100; number++)
      assert.deepEqual(itemOf(await subscriber.next()), ["browser/1", `i${number}`, `<${number}> & more`]);
    const answer = await ask(publisher, "get", xml("items", { node: "browser/1" }));
    assert.equal(answer.getChild("pubsub").getChild("items").getChild("item").attrs.id, "i99");
    await Promise.all([publisher.stop(), subscriber.stop()]);
  },

  async large_and_small_messages() {
    const entity = await connected();
    await subscribe(entity, "browser/2");
    for (const length of [0, 1, 125, 126, 65_535, 65_536, 500_000]) {
      const text = "é".repeat(length / 2) + "x".repeat(length % 2);
      await publish(entity, "browser/2", `l${length}`, text);
      assert.deepEqual(itemOf(await entity.next()), ["browser/2", `l${length}`, text]);
    }
    await entity.stop();
  },

  async resumption() {
    const [publisher, subscriber] = [await connected(), await connected()];
    await subscribe(subscriber, "browser/3");
    await publish(publisher, "browser/3", "before", "1");
    assert.equal(itemOf(await subscriber.next())[1], "before");
    assert.ok(subscriber.streamManagement.enabled, "stream management");
    const own = subscriber.jid.toString();
    const again = new Promise((resumed) => subscriber.streamManagement.once("resumed", resumed));
    // The connection goes without a word, and comes again by itself.
    subscriber.socket.socket.terminate?.() ?? subscriber.socket.socket.close();
    await publish(publisher, "browser/3", "meanwhile", "2");
    await within(again, "resumption");
    assert.equal(subscriber.jid.toString(), own);
    await publish(publisher, "browser/3", "after", "3");
    // @xmpp/client 0.14 does not count answers to requests among what it has handled, so that something comes again, and says so.
    const repeated = await subscriber.next();
    assert.equal(itemOf(repeated)[1], "before");
    assert.equal(repeated.getChild("headers").getChild("header").attrs.name, "Redelivered");
    assert.ok(repeated.getChild("delay", "urn:xmpp:delay"));
    assert.equal(itemOf(await subscriber.next())[1], "meanwhile");
    assert.equal(itemOf(await subscriber.next())[1], "after");
    await Promise.all([publisher.stop(), subscriber.stop()]);
  },

  async chat() {
    const [romeo, juliet] = [await connected("romeo"), await connected("juliet")];
    await romeo.send(xml("message", { to: "juliet@localhost", type: "chat" }, xml("body", {}, "But soft!")));
    const message = await juliet.next();
    assert.equal(message.getChildText("body"), "But soft!");
    assert.equal(jid(message.attrs.from).bare().toString(), "romeo@localhost");
    await juliet.send(xml("message", { to: message.attrs.from, type: "chat" }, xml("body", {}, "Ay me!")));
    assert.equal((await romeo.next()).getChildText("body"), "Ay me!");
    await Promise.all([romeo.stop(), juliet.stop()]);
  },
};

for (const [name, pattern] of Object.entries(patterns)) {
  await pattern();
  console.log(name.replaceAll("_", " "));
}
process.exit(0);
