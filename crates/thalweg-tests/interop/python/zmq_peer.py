"""pyzmq as a puppet: a PUB and a SUB socket."""

import queue
import threading

import zmq

import puppet

CONTEXT = zmq.Context()


class Peer:
    """A thread of its own has the sockets; commands are functions that it runs between two messages."""

    def __init__(self, name):
        self.name = name
        self.work = queue.Queue()
        self.marks = 0

    def connect(self, command):
        self.pub, self.sub = CONTEXT.socket(zmq.PUB), CONTEXT.socket(zmq.SUB)
        for socket in (self.pub, self.sub):
            socket.linger = 0
            socket.connect(f"tcp://{command['host']}:{command['port']}")
        threading.Thread(target=self.run, daemon=True).start()
        self.do(self.meet)

    def subscribe(self, command):
        self.do(lambda: self.sub.subscribe(bytes.fromhex(command["prefix"])))
        self.do(self.meet)

    def send(self, command):
        self.do(lambda: self.pub.send_multipart([bytes.fromhex(frame) for frame in command["frames"]]))

    def disconnect(self, _command):
        self.do(lambda: [socket.close(0) for socket in (self.pub, self.sub)])
        self.work.put(None)

    def do(self, work):
        done = threading.Event()
        self.work.put((work, done))
        if not done.wait(puppet.PATIENCE_S):
            raise TimeoutError("the sockets do not answer")

    def run(self):
        while True:
            try:
                job = self.work.get_nowait()
            except queue.Empty:
                if self.sub.poll(5):
                    self.tell(self.sub.recv_multipart())
                continue
            if job is None:
                return
            work, done = job
            work()
            done.set()

    def tell(self, frames):
        if not frames[0].startswith(b"$mark/"):
            puppet.event("message", self.name, frames=[frame.hex() for frame in frames])

    def meet(self):
        """Waits until what PUB sends reaches SUB: nothing else says that subscriptions are in force."""
        self.marks += 1
        mark = f"$mark/{self.name}/{self.marks}/".encode()
        self.sub.subscribe(mark)
        while True:
            self.pub.send_multipart([mark, b""])
            if self.sub.poll(20):
                frames = self.sub.recv_multipart()
                if frames[0] == mark:
                    break
                self.tell(frames)
        self.sub.unsubscribe(mark)


puppet.run(Peer)
