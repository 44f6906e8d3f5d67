#!/usr/bin/env python3
"""The same requests of XEP-0060 to thalweg, ejabberd and Prosody: which answers differ.

Usage: xmpp_oracle.py [--thalweg PATH]

Starts those that are installed on loopback, and prints for each request the type of the answer, the conditions of its error and
the names of XEP-0060's elements in it: once where all agree, and once for each server where they do not.
docs/protocols/xmpp.md has the differences and their reasons.
"""
import argparse
import base64
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

import xmpp
from zeromq import wait_for

PUBSUB = "http://jabber.org/protocol/pubsub"
ITEM = "<item id='i1'><v xmlns='urn:v'>1</v></item>"
FORM = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>%s#%s</value></field><field var='%s'><value>%s</value></field></x>"


def config(field, value):
    return "<configure>" + FORM % (PUBSUB, "node_config", field, value) + "</configure>"


def options(field, value):
    return "<publish-options>" + FORM % (PUBSUB, "publish-options", field, value) + "</publish-options>"


# Name, type, namespace behind the common one, what stands in <pubsub/>.
REQUESTS = [
    ("create", "set", "", "<create node='n'/>"),
    ("create again", "set", "", "<create node='n'/>"),
    ("create an instant node", "set", "", "<create/>"),
    ("create, max_items 1", "set", "", "<create node='n1'/>" + config("pubsub#max_items", "1")),
    ("create, max_items 5", "set", "", "<create node='n5'/>" + config("pubsub#max_items", "5")),
    ("create, persist_items off", "set", "", "<create node='n0'/>" + config("pubsub#persist_items", "0")),
    ("create, a title", "set", "", "<create node='nt'/>" + config("pubsub#title", "T")),
    ("publish", "set", "", "<publish node='n'>" + ITEM + "</publish>"),
    ("publish to a node that was not made", "set", "", "<publish node='new'>" + ITEM + "</publish>"),
    ("publish without an item", "set", "", "<publish node='n'/>"),
    ("publish two items", "set", "", "<publish node='n'>" + ITEM + ITEM.replace("i1", "i2") + "</publish>"),
    ("publish two payloads", "set", "", "<publish node='n'><item id='i3'><a xmlns='urn:a'/><b xmlns='urn:b'/></item></publish>"),
    ("publish without a node", "set", "", "<publish>" + ITEM + "</publish>"),
    ("publish, persist_items off", "set", "", "<publish node='n'>" + ITEM + "</publish>" + options("pubsub#persist_items", "0")),
    ("publish, a condition not met", "set", "", "<publish node='n'>" + ITEM + "</publish>" + options("pubsub#access_model", "whitelist")),
    ("publish another item", "set", "", "<publish node='n'>" + ITEM.replace("i1", "i9") + "</publish>"),
    ("items", "get", "", "<items node='n'/>"),
    ("items by id", "get", "", "<items node='n'><item id='i9'/></items>"),
    ("items by an id that is not there", "get", "", "<items node='n'><item id='no'/></items>"),
    ("items of a node that is not there", "get", "", "<items node='nowhere'/>"),
    ("items without a node", "get", "", "<items/>"),
    ("subscribe", "set", "", "<subscribe node='n' jid='{bare}'/>"),
    ("subscribe another address", "set", "", "<subscribe node='n' jid='juliet@localhost'/>"),
    ("subscribe without an address", "set", "", "<subscribe node='n'/>"),
    ("subscribe to a node that is not there", "set", "", "<subscribe node='nowhere' jid='{jid}'/>"),
    ("subscriptions", "get", "", "<subscriptions/>"),
    ("affiliations", "get", "", "<affiliations/>"),
    ("unsubscribe what was not subscribed", "set", "", "<unsubscribe node='n1' jid='{jid}'/>"),
    ("retract an item that is not there", "set", "", "<retract node='n'><item id='no'/></retract>"),
    ("retract without an item", "set", "", "<retract node='n'/>"),
    ("retract", "set", "", "<retract node='n'><item id='i9'/></retract>"),
    ("default configuration", "get", "#owner", "<default/>"),
    ("configuration", "get", "#owner", "<configure node='n'/>"),
    ("owners' affiliations", "get", "#owner", "<affiliations node='n'/>"),
    ("purge", "set", "#owner", "<purge node='n'/>"),
    ("purge a node that is not there", "set", "#owner", "<purge node='nowhere'/>"),
    ("delete", "set", "#owner", "<delete node='n'/>"),
    ("delete a node that is not there", "set", "#owner", "<delete node='nowhere'/>"),
    ("an action that is none", "set", "", "<dance/>"),
]


class Client:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 5)
        self.got = ""
        is_plain = ">PLAIN<" in self.open("</stream:features>")
        mechanism, secret = ("PLAIN", base64.b64encode(b"\0romeo\0pw").decode()) if is_plain else ("ANONYMOUS", "=")
        self.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='" + mechanism + "'>" + secret + "</auth>")
        self.until("<success")
        self.open("</stream:features>")
        bind = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind>"
        self.say("<iq type='set' id='bind'>" + bind + "</iq>")
        self.jid = re.search("<jid>([^<]*)</jid>", self.until("</iq>")).group(1)

    def say(self, text):
        self.socket.sendall(text.encode())

    def until(self, end):
        while end not in self.got:
            octets = self.socket.recv(65536)
            if not octets:
                sys.exit("the server has closed the connection: " + self.got)
            self.got += octets.decode()
        text, self.got = self.got, ""
        return text

    def open(self, end):
        self.say("<?xml version='1.0'?><stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>")
        return self.until(end)

    def ask(self, number, kind, namespace, action):
        content = "<pubsub xmlns='%s%s'>%s</pubsub>" % (PUBSUB, namespace, action)
        content = content.format(jid=self.jid, bare=self.jid.split("/")[0])
        number = "q%d" % number
        self.say("<iq type='%s' to='pubsub.localhost' id='%s'>%s</iq>" % (kind, number, content))
        while True:
            # Notifications come between.
            whole = self.until(">")
            while True:
                try:
                    stanzas = ET.fromstring("<all xmlns='jabber:client'>" + whole + "</all>")
                    break
                except ET.ParseError:
                    whole += self.until(">")
            for stanza in stanzas:
                if stanza.get("id") == number:
                    return summary(stanza)


def summary(stanza):
    name_of = lambda element: element.tag.split("}")[1]
    if stanza.get("type") == "error":
        error = stanza.find("{jabber:client}error")
        conditions = sorted(name_of(it) for it in error if name_of(it) != "text")
        return " ".join(["error", error.get("type"), *conditions])
    # Each name once, and none of what stands in a form.
    names = {name_of(it): None for payload in stanza for it in payload.iterfind(".//") if "jabber.org/protocol/pubsub" in it.tag}
    return " ".join(["result", *names])


PROSODY = """\
pidfile = "{folder}/prosody.pid"
data_path = "{folder}"
run_as_root = true
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_plain"
admins = {{ "romeo@localhost" }}
modules_enabled = {{ "roster", "saslauth", "disco" }}
modules_disabled = {{ "s2s", "tls" }}
log = "{folder}/prosody.log"
VirtualHost "localhost"
Component "pubsub.localhost" "pubsub"
  autocreate_on_publish = true
"""


class Server(xmpp.Broker):
    """Nodes are created by every client of ejabberd, and by administrators of Prosody."""

    def __enter__(self):
        if self.name != "prosody":
            return super().__enter__()
        config = self.folder / "prosody.cfg.lua"
        config.write_text(PROSODY.format(folder=self.folder, port=self.port))
        options = ["--config", str(config)]
        subprocess.run(["prosodyctl", *options, "register", "romeo", "localhost", "pw"], check=True, capture_output=True)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(["prosody", *options, "-F"], **quiet)
        wait_for(self.port)
        return self


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--thalweg", default=xmpp.HERE.parent / "target/debug/thalweg")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="thalweg-measure-")
    programs = {"thalweg": args.thalweg, "ejabberd": "ejabberdctl", "prosody": "prosodyctl"}
    with contextlib.ExitStack() as stack:
        clients = []
        for name in (name for name, program in programs.items() if shutil.which(program)):
            server = stack.enter_context(Server(name, args, folder))
            clients.append((name, Client(f"127.0.0.1:{server.port}")))
        for number, (what, *request) in enumerate(REQUESTS):
            answers = [(name, client.ask(number, *request)) for name, client in clients]
            if len({answer for _, answer in answers}) == 1:
                print(what + ": " + answers[0][1])
            else:
                print(what + ":" + "".join("\n    %s: %s" % answer for answer in answers))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
