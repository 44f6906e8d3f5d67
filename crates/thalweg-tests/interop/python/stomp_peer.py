"""stomp.py as a puppet: STOMP 1.0, 1.1 and 1.2 over TCP."""

import threading

import stomp

import puppet

CLASSES = {"1.0": stomp.StompConnection10, "1.1": stomp.StompConnection11, "1.2": stomp.StompConnection12}


class Peer(stomp.ConnectionListener):
    def __init__(self, name):
        self.name = name
        self.receipts = 0
        self.answers = {}
        self.greeting = None
        self.failed = None
        self.arrived = threading.Condition()

    def connect(self, command):
        version = command.get("version", "1.2")
        beat = command.get("heartbeat", 0) * 1000
        options = {} if version == "1.0" else {"heartbeats": (beat, beat), "vhost": command.get("vhost", "/")}
        self.connection = CLASSES[version](
            [(command["host"], command["port"])],
            reconnect_attempts_max=1,
            auto_decode=False,
            **options,
        )
        if "ca" in command:
            self.connection.set_ssl([(command["host"], command["port"])], ca_certs=command["ca"])
        self.connection.set_listener("", self)
        self.connection.connect(command.get("user", "guest"), command.get("password", "guest"))
        with self.arrived:
            self.arrived.wait_for(lambda: self.greeting or self.failed, puppet.PATIENCE_S)
        if self.greeting is None:
            raise ConnectionError(self.failed or "no CONNECTED")
        return {"headers": list(self.greeting.items())}

    def frame(self, command):
        """Sends any frame and waits for its receipt; `fire` waits for none."""
        headers = dict(command["headers"])
        body = bytes.fromhex(command.get("payload", ""))
        if body:
            headers["content-length"] = str(len(body))
        if command.get("fire"):
            self.connection.send_frame(command["command"], headers, body)
            return {}
        self.receipts += 1
        receipt = f"receipt-{self.receipts}"
        self.connection.send_frame(command["command"], {**headers, "receipt": receipt}, body)
        with self.arrived:
            self.arrived.wait_for(lambda: receipt in self.answers or self.failed, puppet.PATIENCE_S)
            if receipt not in self.answers:
                raise ConnectionError(self.failed or f"no receipt of {command['command']}")
        return {}

    def disconnect(self, _command):
        self.frame({"command": "DISCONNECT", "headers": []})

    def on_connected(self, frame):
        with self.arrived:
            self.greeting = frame.headers
            self.arrived.notify_all()

    def on_receipt(self, frame):
        with self.arrived:
            self.answers[frame.headers["receipt-id"]] = True
            self.arrived.notify_all()

    def on_error(self, frame):
        with self.arrived:
            body = frame.body.decode("utf-8", "replace") if isinstance(frame.body, bytes) else frame.body
            self.failed = f"ERROR {frame.headers.get('message')}: {body}"
            self.arrived.notify_all()
        puppet.event("error", self.name, text=self.failed)

    def on_message(self, frame):
        body = frame.body if isinstance(frame.body, bytes) else frame.body.encode()
        puppet.event("message", self.name, headers=list(frame.headers.items()), payload=body.hex())

    def on_disconnected(self):
        with self.arrived:
            self.failed = self.failed or "closed"
            self.arrived.notify_all()
        puppet.event("closed", self.name)


puppet.run(Peer)
