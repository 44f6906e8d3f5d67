"""The stage of the STOMP scenarios: stomp.py connections, and a bare socket for frames that stomp.py does not send."""

import queue
import socket
import time

import stomp as library

from stage import PATIENCE_S, QUIET_S, Register

stomp = Register()

CLASSES = {"1.0": library.StompConnection10, "1.1": library.StompConnection11, "1.2": library.StompConnection12}
# What every MESSAGE has and no scenario compares.
EVERYWHERE = {"content-length", "message-id", "ack", "destination", "subscription"}


class Stage:
    def __init__(self, name, port):
        self.name = name
        self.port = port
        self.open = []

    def called(self, short):
        return f"stomp.{self.name}.{short}"

    def session(self, version="1.2", **headers):
        session = Session(self.port, version, headers)
        self.open.append(session)
        return session

    def wire(self):
        wire = Wire(self.port)
        self.open.append(wire)
        return wire

    def close(self):
        for session in self.open:
            session.end()


def told(frame):
    """A frame as a fact: its command, the headers that a scenario may compare, its body."""
    headers = {key: value for key, value in frame.headers.items() if key not in EVERYWHERE}
    body = frame.body.decode("utf-8", "backslashreplace") if isinstance(frame.body, bytes) else frame.body
    return f"{frame.cmd} {' '.join(f'{key}={headers[key]!r}' for key in sorted(headers))} | {body}"


class Session(library.ConnectionListener):
    """A connected stomp.py client. Everything that comes in waits in two queues: messages, and answers."""

    def __init__(self, port, version, headers):
        self.messages = queue.Queue()
        self.answers = queue.Queue()
        self.receipts = 0
        self.connected = None
        # Left alone the library names the address it connects to as the virtual host.
        options = {} if version == "1.0" else {"heartbeats": (0, 0), "vhost": "/"}
        self.connection = CLASSES[version](
            [("127.0.0.1", port)], reconnect_attempts_max=1, auto_decode=False, timeout=PATIENCE_S, **options
        )
        self.connection.set_listener("", self)
        login = headers.pop("login", "guest")
        passcode = headers.pop("passcode", "guest")
        self.connection.connect(login, passcode, headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.greeting = self.answers.get(timeout=PATIENCE_S)

    # What stomp.py calls.
    def on_connected(self, frame):
        self.connected = frame
        self.answers.put(("connected", frame))

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.answers.put(("receipt", frame))

    def on_error(self, frame):
        self.answers.put(("error", frame))

    def on_disconnected(self):
        self.answers.put(("closed", None))

    # What scenarios call.
    def do(self, command, body="", **headers):
        """Sends a frame with a receipt; the answer as a fact."""
        self.receipts += 1
        mine = f"r{self.receipts}"
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        try:
            self.connection.send_frame(command, {**headers, "receipt": mine}, body)
        except library.exception.NotConnectedException:
            return "not connected"
        return self.answer(mine)

    def answer(self, receipt=None, within=PATIENCE_S):
        """What the broker says next; what it does after an ERROR has a scenario of its own."""
        try:
            kind, frame = self.answers.get(timeout=within)
        except queue.Empty:
            return "no answer"
        if kind == "receipt":
            return "receipt" if frame.headers.get("receipt-id") == receipt else f"receipt of {frame.headers}"
        if kind == "error":
            return error(frame)
        return kind

    def tell(self, command, body="", **headers):
        """Sends a frame without a receipt."""
        self.connection.send_frame(command, {key.replace("_", "-"): value for key, value in headers.items()}, body)

    def receive(self, count, within=PATIENCE_S):
        got = []
        deadline = time.monotonic() + within
        while len(got) < count:
            try:
                got.append(self.messages.get(timeout=max(0.01, deadline - time.monotonic())))
            except queue.Empty:
                break
        return got

    def bodies(self, count, within=PATIENCE_S):
        return [frame.body.decode("utf-8", "backslashreplace") for frame in self.receive(count, within)]

    def flagged(self, count):
        """Bodies, with a mark behind those that came before."""
        got = []
        for frame in self.receive(count):
            got.append(frame.body.decode() + ("*" if frame.headers.get("redelivered") == "true" else ""))
        return got

    def quiet(self):
        return self.bodies(1000, QUIET_S)

    def cut(self):
        """The network fails."""
        self.connection.transport.disconnect_socket()

    def end(self):
        try:
            # Its own `stop` waits for a reader that may wait for ever.
            self.cut()
        except Exception:  # a scenario may have broken it on purpose
            pass


def error(frame):
    body = frame.body.decode("utf-8", "backslashreplace") if isinstance(frame.body, bytes) else frame.body
    return f"error {frame.headers.get('message')!r} | {body.strip()}"


class Frame:
    def __init__(self, command, headers, body):
        self.cmd, self.headers, self.body = command, headers, body


class Wire:
    """A bare socket."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.settimeout(PATIENCE_S)
        self.buffer = b""
        self.beats = 0

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def greet(self, version="1.2", more=""):
        self.send(f"CONNECT\naccept-version:{version}\nhost:/\nlogin:guest\npasscode:guest\n{more}\n\0")
        return self.next()

    def next(self, within=PATIENCE_S):
        """The next frame; None at the end of the connection; "silence" when nothing comes."""
        deadline = time.monotonic() + within
        while True:
            while self.buffer[:1] in (b"\n", b"\r"):
                self.beats += self.buffer[:1] == b"\n"
                self.buffer = self.buffer[1:]
            head, gap, rest = self.buffer.partition(b"\n\n")
            if gap:
                lines = head.decode().split("\n")
                headers = {}
                for line in lines[1:]:
                    key, _, value = line.partition(":")
                    headers.setdefault(key, value)
                size = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
                if 0 <= size < len(rest):
                    self.buffer = rest[size + 1 :]
                    return Frame(lines[0], headers, rest[:size])
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = self.socket.recv(65536)
            except TimeoutError:
                return "silence"
            except ConnectionError:
                return None
            if not more:
                return None
            self.buffer += more

    def answer(self):
        frame = self.next()
        if frame is None:
            return "the connection ends"
        if frame == "silence":
            return frame
        if frame.cmd == "ERROR":
            return error(frame)
        if frame.cmd in ("RECEIPT", "CONNECTED"):
            return frame.cmd.lower()
        return told(frame)

    def end(self):
        self.socket.close()
