"""slixmpp as the puppet and the programs with patterns use it: a client on 127.0.0.1, and payloads as elements of items."""

import asyncio
import base64
from xml.etree import ElementTree as ET

import slixmpp

DOMAIN = "localhost"
SERVICE = "pubsub." + DOMAIN
TEXT = "{urn:thalweg:payload:0}text"
DATA = "{urn:thalweg:payload:0}data"
JSON = "{urn:xmpp:json:0}json"
PLUGINS = ["xep_0004", "xep_0030", "xep_0060", "xep_0092", "xep_0131", "xep_0199", "xep_0203"]


class Client(slixmpp.ClientXMPP):
    """Without a user it logs in without a name. `managed` has stream management, and resumes a stream if `resumes`."""

    def __init__(self, on_item, user=None, password="", managed=False, resumes=True):
        super().__init__(f"{user}@{DOMAIN}" if user else DOMAIN, password if user else "")
        for plugin in PLUGINS:
            self.register_plugin(plugin)
        if managed:
            self.register_plugin("xep_0198", {"allow_resume": resumes})
        self.plugin["feature_mechanisms"].unencrypted_plain = True
        self.enable_starttls = self.enable_direct_tls = False
        self.enable_plaintext = True
        self.started = asyncio.get_running_loop().create_future()
        self.add_event_handler("session_start", lambda _: self.started.set_result(None))
        self.on_item = on_item
        self.add_event_handler("pubsub_publish", self._on_publish)

    def _on_publish(self, message):
        items = message["pubsub_event"]["items"]
        # Not by iterating over the stanza: slixmpp does that around this call, and there is one index for both.
        for item in items.iterables:
            self.on_item(message, items["node"], item)

    @property
    def pubsub(self):
        return self.plugin["xep_0060"]

    async def log_in(self, port, patience_s, host="127.0.0.1"):
        self.connect(host, port)
        await asyncio.wait_for(self.started, patience_s)
        self.send_presence()

    def form(self, **fields):
        made = self.plugin["xep_0004"].make_form(ftype="submit")
        for name, value in fields.items():
            made.add_field(var=f"pubsub#{name}", value=value)
        return made


def element_of(payload, media_type=None):
    """The element that stands for a payload."""
    if media_type == "application/json":
        element = ET.Element(JSON)
        element.text = payload.decode()
        return element
    if payload.isascii() and payload.decode().isprintable():
        element = ET.Element(TEXT)
        element.text = payload.decode()
    else:
        element = ET.Element(DATA, encoding="base64")
        element.text = base64.b64encode(payload).decode()
    if media_type:
        element.set("type", media_type)
    return element


def payload_of(element):
    """The payload for which an element stands, and its media type."""
    text = element.text or ""
    if element.tag == JSON:
        return text.encode(), "application/json"
    if element.tag == TEXT:
        return text.encode(), element.get("type")
    if element.tag == DATA:
        return base64.b64decode(text), element.get("type")
    return ET.tostring(element), "application/xml"
