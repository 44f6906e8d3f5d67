"""TLS from files and from an ssl.SSLContext: what is taken over holds, what cannot be is refused."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import pytest
import thalweg
from conftest import free_ports

SECONDS = 30.0


def openssl(*command: object) -> None:
    subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)


def issue(folder: Path, authority: str, name: str, extension: str) -> None:
    key, request, certificate = (folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    (folder / "extension").write_text(f"{extension}\nbasicConstraints=CA:FALSE\n")
    signer = ["-CA", folder / f"{authority}.pem", "-CAkey", folder / f"{authority}.key", "-CAcreateserial"]
    openssl("x509", "-req", "-in", request, *signer, "-days", 2, "-out", certificate, "-extfile", folder / "extension")


def authority(folder: Path, name: str) -> None:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", "-days", 2, "-subj", f"/CN={name}")


@dataclass
class Secured:
    folder: Path
    url: str
    strict: str
    """Wants a client certificate."""

    def file(self, name: str) -> Path:
        return self.folder / name

    def context(self, name: str = "authority") -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file(f"{name}.pem")))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority(folder, "authority")
    authority(folder, "stranger")
    issue(folder, "authority", "server", "subjectAltName=DNS:localhost")
    issue(folder, "authority", "client", "extendedKeyUsage=clientAuth")
    return folder


@pytest.fixture
def secured(broker, certificates) -> Secured:
    broker.stop()
    ports = free_ports(2)
    more = []
    for name, port in zip(("plain_tls", "strict"), ports):
        more += [f"listeners.{name}.transport=tls", f"listeners.{name}.bind=127.0.0.1:{port}"]
        more += [f"listeners.{name}.tls.certificate={certificates / 'server.pem'}", f"listeners.{name}.tls.key={certificates / 'server.key'}"]
    more += ["listeners.strict.tls.client_certificate=required", f"listeners.strict.tls.client_ca={certificates / 'authority.pem'}"]
    broker.more = tuple(more)
    broker.start()
    return Secured(certificates, *(f"mqtts://localhost:{port}" for port in ports))


def is_reached(url: str, **settings) -> bool:
    with thalweg.connect(url, **settings) as client:
        return bool(client.publish("a", "x", timeout=SECONDS))


def why_not(url: str, caplog, **settings) -> str:
    """What the log says of a broker that is not reached."""
    told: Queue = Queue()
    caplog.handler.addFilter(lambda record: told.put(record.getMessage()) or True)
    with thalweg.connect(url, **settings) as client:
        words = told.get(timeout=SECONDS)
        client.close(0)
    return words


def test_a_context_brings_its_authorities(secured):
    assert is_reached(secured.url, ssl_context=secured.context())
    assert is_reached(secured.url, ca=secured.file("authority.pem"))


def test_another_authority_is_not_trusted(secured, caplog):
    assert "certificate" in why_not(secured.url, caplog, ssl_context=secured.context("stranger"))


def test_a_context_that_checks_names_checks_them_here(secured, caplog):
    url = secured.url.replace("localhost", "127.0.0.1")
    assert "name" in why_not(url, caplog, ssl_context=secured.context())


def test_a_context_that_checks_nothing_checks_nothing(secured):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    assert is_reached(secured.url.replace("localhost", "127.0.0.1"), ssl_context=context)


def test_a_key_in_a_context_is_not_seen_and_a_broker_that_wants_it_says_so(secured, caplog):
    context = secured.context()
    identity = {"certificate": secured.file("client.pem"), "key": secured.file("client.key")}
    context.load_cert_chain(str(identity["certificate"]), str(identity["key"]))
    words = why_not(secured.strict, caplog, ssl_context=context)
    assert "certificate" in words.lower(), words
    caplog.handler.filters.clear()
    assert is_reached(secured.strict, ssl_context=context, **identity)


def test_what_cannot_be_taken_over_is_refused(certificates):
    def context() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(certificates / "authority.pem"))

    names = context()
    names.check_hostname = False
    newest = context()
    newest.minimum_version = ssl.TLSVersion.TLSv1_3
    older = context()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    left_out = context()
    left_out.options |= ssl.OP_NO_TLSv1_3
    ciphers = context()
    ciphers.set_ciphers("ECDHE+CHACHA20")
    revoked = context()
    revoked.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    empty = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for refused, words in [
        (names, "names"),
        (newest, "versions"),
        (older, "versions"),
        (left_out, "versions"),
        (ciphers, "ciphers"),
        (revoked, "revoked"),
        (empty, "no authorities"),
        (server, "for servers"),
    ]:
        with pytest.raises(ValueError, match=words):
            thalweg.connect("mqtts://localhost", ssl_context=refused)
    with pytest.raises(TypeError, match="not str"):
        thalweg.connect("mqtts://localhost", ssl_context="default")
    for beside in ({"ca": certificates / "authority.pem"}, {"insecure": True}):
        with pytest.raises(TypeError, match="give one of them"):
            thalweg.connect("mqtts://localhost", ssl_context=context(), **beside)
