"""XMPP clients, unchanged, against the broker: slixmpp with its XEP-0060, by itself and with paho on MQTT's side.

`xmpp_patterns.py XMPP MQTT STARTTLS PEOPLE FOLDER` takes the ports on 127.0.0.1 and the folder with the certificates, prints one
line per pattern, and fails at the first that does not get what it should. At PEOPLE users log in by name (`../../tests/all/interop/xmpp.rs`).
"""

import asyncio
import ssl
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import paho.mqtt.client as mqtt
import slixmpp
import xmpp_client
from slixmpp.exceptions import IqError
from xmpp_client import DATA, DOMAIN, SERVICE, TEXT

XMPP, MQTT, STARTTLS, PEOPLE = (int(port) for port in sys.argv[1:5])
CERTIFICATES = Path(sys.argv[5])
PATIENCE_S = 10
PASSWORD = "wherefore"


class Client(xmpp_client.Client):
    """One that keeps the items and messages that arrive."""

    def __init__(self, managed=False, user=None):
        self.items = asyncio.Queue()
        super().__init__(self.keep, user, PASSWORD, managed)
        self.resumed = asyncio.Event()
        self.add_event_handler("session_resumed", lambda _: self.resumed.set())
        self.said, self.refused, self.deleted = asyncio.Queue(), asyncio.Queue(), asyncio.Queue()
        self.add_event_handler("message", lambda message: message["body"] and self.said.put_nowait(message))
        self.add_event_handler("message_error", self.refused.put_nowait)
        self.add_event_handler("pubsub_delete", self.deleted.put_nowait)

    def keep(self, _message, node, item):
        self.items.put_nowait((node, item["id"], item["payload"]))

    async def item(self):
        return await asyncio.wait_for(self.items.get(), PATIENCE_S)

    async def next_said(self):
        return await asyncio.wait_for(self.said.get(), PATIENCE_S)

    async def synced(self):
        """The broker has handled all that was sent before."""
        await self.plugin["xep_0199"].ping(DOMAIN, timeout=PATIENCE_S)


async def connected(managed=False, user=None):
    client = Client(managed, user)
    await client.log_in(PEOPLE if user else XMPP, PATIENCE_S)
    return client


def element(text):
    return ET.fromstring(text)


def connected_mqtt(topic, got):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    client.on_message = lambda _c, _u, m: loop.call_soon_threadsafe(got.put_nowait, (m.topic, m.payload))
    client.on_subscribe = lambda *_: loop.call_soon_threadsafe(ready.set)
    client.connect("127.0.0.1", MQTT)
    client.subscribe(topic, qos=1)
    client.loop_start()
    return client, ready


async def log_in():
    client = await connected()
    assert client.boundjid.domain == DOMAIN and client.boundjid.resource, client.boundjid
    roster = await client.get_roster()
    assert roster["type"] == "result"
    rtt = await client.plugin["xep_0199"].ping(DOMAIN, timeout=PATIENCE_S)
    assert rtt >= 0
    version = await client.plugin["xep_0092"].get_version(DOMAIN)
    assert version["software_version"]["name"] == "Thalweg"
    await client.disconnect()


async def discovery():
    client = await connected()
    disco = client.plugin["xep_0030"]
    items = await disco.get_items(jid=DOMAIN)
    assert any(jid == SERVICE for jid, _, _ in items["disco_items"]["items"]), items
    info = await disco.get_info(jid=SERVICE)
    assert ("pubsub", "service") in {identity[:2] for identity in info["disco_info"]["identities"]}
    assert "http://jabber.org/protocol/pubsub#publish" in info["disco_info"]["features"]
    await client.disconnect()


async def publish_and_notify():
    publisher, subscriber = await connected(), await connected()
    answer = await subscriber.pubsub.subscribe(SERVICE, "princely_musings")
    assert answer["pubsub"]["subscription"]["subscription"] == "subscribed"
    entry = element("<entry xmlns='http://www.w3.org/2005/Atom'><title>Soliloquy</title></entry>")
    for number in range(100):
        answer = await publisher.pubsub.publish(SERVICE, "princely_musings", id=f"i{number}", payload=entry)
        assert answer["pubsub"]["publish"]["item"]["id"] == f"i{number}"
    for number in range(100):
        node, id_, payload = await subscriber.item()
        assert (node, id_) == ("princely_musings", f"i{number}"), (node, id_)
        assert ET.tostring(payload) == ET.tostring(entry)
    answer = await subscriber.pubsub.get_affiliations(SERVICE)
    assert [it["node"] for it in answer["pubsub"]["affiliations"]] == ["princely_musings"]
    await subscriber.pubsub.unsubscribe(SERVICE, "princely_musings")
    await publisher.pubsub.publish(SERVICE, "princely_musings", payload=entry)
    await subscriber.plugin["xep_0199"].ping(DOMAIN, timeout=PATIENCE_S)
    assert subscriber.items.empty()
    for client in (publisher, subscriber):
        await client.disconnect()


async def last_items():
    client = await connected()
    entry = element("<entry xmlns='urn:example:entry'>kept</entry>")
    await client.pubsub.publish(SERVICE, "kept", id="k1", payload=entry)
    await client.pubsub.subscribe(SERVICE, "kept")
    node, id_, payload = await client.item()
    assert (node, id_, payload.text) == ("kept", "k1", "kept")
    items = await client.pubsub.get_items(SERVICE, "kept")
    assert [item["id"] for item in items["pubsub"]["items"]] == ["k1"]
    await client.pubsub.retract(SERVICE, "kept", "k1")
    items = await client.pubsub.get_items(SERVICE, "kept")
    assert len(items["pubsub"]["items"]) == 0
    await client.disconnect()


async def several_items():
    """A policy of the broker has the node keep three."""
    client = await connected()
    entry = element("<entry xmlns='urn:example:entry'>kept</entry>")
    for number in range(5):
        await client.pubsub.publish(SERVICE, "several", id=f"k{number}", payload=entry)

    async def names(**options):
        items = await client.pubsub.get_items(SERVICE, "several", **options)
        return [item["id"] for item in items["pubsub"]["items"]]

    assert await names() == ["k2", "k3", "k4"]
    assert await names(max_items=2) == ["k3", "k4"]
    assert await names(item_ids=["k3"]) == ["k3"]
    await client.pubsub.publish(SERVICE, "several", id="k3", payload=entry)
    await client.pubsub.retract(SERVICE, "several", "k2")
    assert await names() == ["k4", "k3"]
    config = await client.pubsub.get_node_config(SERVICE, "several")
    assert config["pubsub_owner"]["configure"]["form"].get_values()["pubsub#max_items"] == "3"
    await client.pubsub.purge(SERVICE, "several")
    assert await names() == []
    await client.disconnect()


async def errors():
    client = await connected()
    for refused, condition in [
        (client.pubsub.unsubscribe(SERVICE, "never"), "unexpected-request"),
        (client.pubsub.subscribe(SERVICE, "a", subscribee="romeo@localhost"), "bad-request"),
        (client.pubsub.get_node_affiliations(SERVICE, "a"), "forbidden"),
    ]:
        try:
            await refused
            raise AssertionError(condition)
        except IqError as error:
            assert error.iq["error"]["condition"] == condition, error
    await client.disconnect()


async def with_mqtt():
    got = asyncio.Queue()
    client = await connected()
    sensor, ready = connected_mqtt("plant/#", got)
    await asyncio.wait_for(ready.wait(), PATIENCE_S)
    await client.pubsub.subscribe(SERVICE, "plant/line-7")
    sensor.publish("plant/line-7", b"21.5", qos=1)
    node, _, payload = await client.item()
    assert (node, payload.tag, payload.text) == ("plant/line-7", TEXT, "21.5")
    assert await asyncio.wait_for(got.get(), PATIENCE_S) == ("plant/line-7", b"21.5")
    octets = bytes(range(256))
    sensor.publish("plant/line-7", octets, qos=1)
    _, _, payload = await client.item()
    assert payload.tag == DATA
    assert await asyncio.wait_for(got.get(), PATIENCE_S) == ("plant/line-7", octets)
    # The same element comes back as the same octets.
    await client.pubsub.publish(SERVICE, "plant/line-8", payload=payload)
    assert await asyncio.wait_for(got.get(), PATIENCE_S) == ("plant/line-8", octets)
    await client.pubsub.publish(SERVICE, "plant/line-9", payload=element("<text xmlns='urn:thalweg:payload:0'>22</text>"))
    assert await asyncio.wait_for(got.get(), PATIENCE_S) == ("plant/line-9", b"22")
    sensor.loop_stop()
    sensor.disconnect()
    await client.disconnect()


def secured(client):
    """Connects by STARTTLS."""
    client.enable_starttls, client.enable_plaintext = True, False
    client.ca_certs = CERTIFICATES / "authority.pem"
    client.connect("127.0.0.1", STARTTLS)
    return asyncio.wait_for(client.started, PATIENCE_S)


async def starttls():
    client = Client()
    await secured(client)
    assert client.transport.get_extra_info("cipher"), "TLS"
    await client.plugin["xep_0199"].ping(DOMAIN, timeout=PATIENCE_S)
    await client.disconnect()


async def certificate():
    """The common name of a certificate logs in by EXTERNAL, over TLS 1.3 and 1.2."""
    for version in ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2:
        client = Client(user="interop")
        client.certfile, client.keyfile = CERTIFICATES / "client.pem", CERTIFICATES / "client.key"
        client.plugin["feature_mechanisms"].use_mech = "EXTERNAL"
        client.ssl_context.maximum_version = version
        await secured(client)
        assert client.boundjid.bare == f"interop@{DOMAIN}", client.boundjid
        await client.disconnect()


async def resumption():
    client = await connected(managed=True)
    sensor, _ = connected_mqtt("other", asyncio.Queue())
    await client.pubsub.subscribe(SERVICE, "plant/line-7")
    sensor.publish("plant/line-7", b"1", qos=1)
    assert (await client.item())[2].text == "1"
    # The connection breaks without a word, and a message comes before there is another.
    client.add_event_handler("disconnected", lambda _: client.connect("127.0.0.1", XMPP), disposable=True)
    client.transport.pause_reading()
    for body in b"2", b"3":
        sensor.publish("plant/line-7", body, qos=1).wait_for_publish(PATIENCE_S)
    client.abort()
    await asyncio.wait_for(client.resumed.wait(), PATIENCE_S)
    assert [(await client.item())[2].text for _ in range(2)] == ["2", "3"]
    sensor.publish("plant/line-7", b"4", qos=1)
    assert (await client.item())[2].text == "4"
    sensor.loop_stop()
    sensor.disconnect()
    await client.disconnect()


async def refused(request, condition):
    try:
        await request
    except IqError as error:
        assert error.iq["error"]["condition"] == condition, error.iq
        return error.iq["error"]["text"]
    raise AssertionError(condition)


async def forms_of_nodes():
    client, other = await connected(), await connected()
    config = client.form(persist_items="1", access_model="whitelist", max_items="1")
    answer = await client.pubsub.create_node(SERVICE, "made", config=config)
    assert not list(answer.xml), answer
    instant = await client.pubsub.create_node(SERVICE, None)
    assert instant["pubsub"]["create"]["node"], instant
    for node in None, "made":
        answer = await client.pubsub.get_node_config(SERVICE, node)
        values = answer["pubsub_owner"]["configure" if node else "default"]["form"].get_values()
        assert (values["pubsub#node_type"], values["pubsub#max_items"]) == ("leaf", "1"), values
    await client.pubsub.set_node_config(SERVICE, "made", client.form(notify_delete="1"))
    # What cannot be so is refused by its name.
    text = await refused(client.pubsub.set_node_config(SERVICE, "made", client.form(notify_config="1")), "not-acceptable")
    assert "pubsub#notify_config" in text, text
    await refused(client.pubsub.create_node(SERVICE, "roster", config=client.form(access_model="roster")), "not-acceptable")
    await other.pubsub.subscribe(SERVICE, "made")
    await client.pubsub.delete_node(SERVICE, "made")
    gone = await asyncio.wait_for(other.deleted.get(), PATIENCE_S)
    assert gone["pubsub_event"]["delete"]["node"] == "made", gone
    for each in (client, other):
        await each.disconnect()


async def forms_of_subscriptions():
    client = await connected()
    entry = element("<entry xmlns='urn:example:entry'/>")

    async def choose(**fields):
        # slixmpp's own call for this says `get`.
        request = client.make_iq_set(ito=SERVICE)
        request["pubsub"]["options"]["node"] = "chosen/below"
        request["pubsub"]["options"]["jid"] = client.boundjid
        request["pubsub"]["options"].append(client.form(**fields))
        await request.send(timeout=PATIENCE_S)

    await client.pubsub.subscribe(SERVICE, "chosen/below", bare=False, options=client.form(deliver="1"))
    answer = await client.pubsub.get_subscription_options(SERVICE, "chosen/below", client.boundjid)
    assert answer["pubsub"]["options"]["options"].get_values()["pubsub#deliver"], answer
    await choose(deliver="0")
    await client.pubsub.publish(SERVICE, "chosen/below", id="unseen", payload=entry)
    await client.synced()
    assert client.items.empty()
    await choose(deliver="1")
    await client.pubsub.publish(SERVICE, "chosen/below", id="seen", payload=entry)
    while (await client.item())[1] != "seen":
        pass
    await refused(choose(expire="2006-02-28T23:59:00Z"), "bad-request")
    await client.pubsub.subscribe(SERVICE, "deep", options=client.form(subscription_depth="all"))
    await client.pubsub.publish(SERVICE, "deep/er/still", id="below", payload=entry)
    assert (await client.item())[:2] == ("deep/er/still", "below")
    answer = await client.pubsub.get_subscriptions(SERVICE)
    nodes = {it["node"] for it in answer["pubsub"]["subscriptions"]}
    assert nodes == {"chosen/below", "deep"}, nodes
    await client.disconnect()


async def affiliations():
    romeo, mercutio = await connected(user="romeo"), await connected(user="mercutio")
    entry = element("<entry xmlns='urn:example:entry'/>")
    for client, node, expected in [
        (romeo, "shown", "publisher"),
        (mercutio, "shown", "member"),
        (mercutio, "hidden", "outcast"),
    ]:
        answer = await client.pubsub.get_affiliations(SERVICE, node)
        found = [it["affiliation"] for it in answer["pubsub"]["affiliations"]]
        assert found == [expected], (node, found)
    await mercutio.pubsub.subscribe(SERVICE, "shown")
    await romeo.pubsub.publish(SERVICE, "shown", id="s1", payload=entry)
    assert (await mercutio.item())[:2] == ("shown", "s1")
    await refused(mercutio.pubsub.publish(SERVICE, "shown", payload=entry), "forbidden")
    await refused(mercutio.pubsub.create_node(SERVICE, "shown"), "forbidden")
    await refused(mercutio.pubsub.get_items(SERVICE, "hidden"), "forbidden")
    await refused(romeo.pubsub.modify_affiliations(SERVICE, "shown", [("mercutio@localhost", "owner")]), "forbidden")
    for client in (romeo, mercutio):
        await client.disconnect()


async def chat():
    romeo, juliet = await connected(user="romeo"), await connected(managed=True, user="juliet")
    romeo.send_message(f"juliet@{DOMAIN}", "But soft!", mtype="chat")
    message = await juliet.next_said()
    assert (message["from"], message["body"]) == (romeo.boundjid.full, "But soft!"), message
    message.reply("Ay me!").send()
    message = await romeo.next_said()
    assert (message["from"], message["body"]) == (juliet.boundjid.full, "Ay me!"), message
    romeo.send_message(f"tybalt@{DOMAIN}", "Peace", mtype="chat")
    error = await asyncio.wait_for(romeo.refused.get(), PATIENCE_S)
    assert error["error"]["condition"] == "service-unavailable", error
    for client in (romeo, juliet):
        await client.disconnect()


async def offline_messages():
    romeo, juliet = await connected(user="romeo"), await connected(user="juliet")
    await juliet.synced()
    await juliet.disconnect()
    for number in range(3):
        romeo.send_message(f"juliet@{DOMAIN}", f"night {number}", mtype="chat")
    romeo.send_message(f"juliet@{DOMAIN}", "lost", mtype="headline")
    await romeo.synced()
    sensor, _ = connected_mqtt("other", asyncio.Queue())
    sensor.publish(f"$q/juliet@{DOMAIN}", b"it is the lark", qos=1).wait_for_publish(PATIENCE_S)
    juliet = await connected(managed=True, user="juliet")
    messages = [await juliet.next_said() for _ in range(4)]
    assert [message["body"] for message in messages] == ["night 0", "night 1", "night 2", "it is the lark"]
    assert {message["from"] for message in messages[:3]} == {romeo.boundjid.full}
    assert messages[3]["from"] == DOMAIN
    assert all(message["delay"]["stamp"] for message in messages)
    await juliet.synced()
    await juliet.disconnect()
    juliet = await connected(user="juliet")
    await juliet.synced()
    assert juliet.said.empty()
    sensor.loop_stop()
    sensor.disconnect()
    for client in (romeo, juliet):
        await client.disconnect()


async def requests():
    """A client of MQTT 5 answers one of XMPP, and the other way round."""
    romeo = await connected(user="romeo")
    loop, got = asyncio.get_running_loop(), asyncio.Queue()
    peer = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    ready = asyncio.Event()
    peer.on_subscribe = lambda *_: loop.call_soon_threadsafe(ready.set)

    def on_message(client, _, message):
        if message.topic == "plant/pump":
            properties = mqtt.Properties(mqtt.PacketTypes.PUBLISH)
            properties.CorrelationData = message.properties.CorrelationData
            client.publish(message.properties.ResponseTopic, message.payload + b"!", properties=properties)
        else:
            loop.call_soon_threadsafe(got.put_nowait, (message.payload, message.properties.CorrelationData))

    peer.on_message = on_message
    peer.connect("127.0.0.1", MQTT)
    peer.subscribe([("plant/pump", 1), ("answers/1", 1)])
    peer.loop_start()
    await asyncio.wait_for(ready.wait(), PATIENCE_S)
    question = romeo.make_iq_get(ito=f"rpc.{DOMAIN}/plant/pump")
    question.append(element("<text xmlns='urn:thalweg:payload:0'>on</text>"))
    answer = await question.send(timeout=PATIENCE_S)
    assert answer.xml.find(TEXT).text == "on!", answer
    nobody = romeo.make_iq_get(ito=f"rpc.{DOMAIN}/plant/fan")
    nobody.append(element("<text xmlns='urn:thalweg:payload:0'>on</text>"))
    await refused(nobody.send(timeout=PATIENCE_S), "service-unavailable")

    def on_request(iq):
        result = iq.reply()
        result.append(element("<json xmlns='urn:xmpp:json:0'>9</json>"))
        result.send()

    callback = slixmpp.xmlstream.handler.Callback
    matcher = slixmpp.xmlstream.matcher.MatchXPath(f"{{jabber:client}}iq/{TEXT}")
    romeo.register_handler(callback("requests", matcher, lambda iq: iq["type"] == "set" and on_request(iq)))
    properties = mqtt.Properties(mqtt.PacketTypes.PUBLISH)
    properties.ResponseTopic, properties.CorrelationData = "answers/1", b"\x01\xff"
    peer.publish(f"$jid/romeo@{DOMAIN}", b"speed?", qos=1, properties=properties)
    assert await asyncio.wait_for(got.get(), PATIENCE_S) == (b"9", b"\x01\xff")
    peer.loop_stop()
    peer.disconnect()
    await romeo.disconnect()


async def personal_nodes():
    """What juliet listens to comes to romeo, whose client is interested in it, once she is a contact, and to MQTT."""
    romeo, juliet = await connected(user="romeo"), await connected(user="juliet")
    got, tunes = asyncio.Queue(), asyncio.Queue()
    sensor, ready = connected_mqtt(f"$pep/juliet@{DOMAIN}/#", got)
    await asyncio.wait_for(ready.wait(), PATIENCE_S)
    for client in (romeo, juliet):
        client.register_plugin("xep_0118")
    romeo.add_event_handler("user_tune_publish", tunes.put_nowait)
    await romeo.plugin["xep_0115"].update_caps()
    await juliet.plugin["xep_0118"].publish_tune(title="one")
    assert b"<title>one</title>" in (await asyncio.wait_for(got.get(), PATIENCE_S))[1]
    romeo.send_presence()
    romeo.send_presence_subscription(f"juliet@{DOMAIN}")
    for title in "one", "two":
        event = await asyncio.wait_for(tunes.get(), PATIENCE_S)
        heard = event["pubsub_event"]["items"]["item"]["tune"]["title"]
        assert (event["from"].full, heard) == (f"juliet@{DOMAIN}", title), event
        if title == "one":
            await juliet.plugin["xep_0118"].publish_tune(title="two")
    info = await romeo.plugin["xep_0030"].get_info(f"juliet@{DOMAIN}", timeout=PATIENCE_S)
    assert ("pubsub", "pep", None, None) in info["disco_info"]["identities"], info
    sensor.loop_stop()
    sensor.disconnect()
    for client in (romeo, juliet):
        await client.disconnect()


async def presence():
    """Romeo's clients are told of each other, and juliet, who may not read that, what is sent to her alone."""
    one, juliet = await connected(user="romeo"), await connected(user="juliet")
    seen, told = asyncio.Queue(), asyncio.Queue()
    for client, queue in (one, seen), (juliet, told):
        for type_ in "available", "unavailable":
            client.add_event_handler(f"presence_{type_}", queue.put_nowait)
    two = await connected(user="romeo")

    async def heard(queue):
        while (said := await asyncio.wait_for(queue.get(), PATIENCE_S))["from"] != two.boundjid:
            pass
        return said["type"], said["status"]

    assert await heard(seen) == ("available", "")
    two.send_presence(pto=juliet.boundjid.full, pstatus="to juliet")
    assert await heard(told) == ("available", "to juliet")
    two.send_presence(pstatus="to all")
    assert await heard(seen) == ("available", "to all")
    await two.disconnect()
    for queue in (seen, told):
        assert await heard(queue) == ("unavailable", "")
    for client in (one, juliet):
        await client.disconnect()


async def main():
    patterns = (log_in, discovery, publish_and_notify, last_items, several_items, errors, with_mqtt, starttls, certificate,
                resumption, forms_of_nodes, forms_of_subscriptions, affiliations, chat, offline_messages, requests, personal_nodes, presence)
    for pattern in patterns:
        await asyncio.wait_for(pattern(), 60)
        print(pattern.__name__.replace("_", " "), flush=True)


asyncio.run(main())
