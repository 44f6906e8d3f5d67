"""Debian's rabbitmq-server as an oracle: one node in a folder of its own, on ports of its own, gone when it goes.

Nothing of it touches a RabbitMQ that the machine may run: the node name, the port mapper, the database, the log, the plugin
list and every listener are its own. Run alone (`python rabbitmq.py FIRST_PORT`) it serves until its input ends.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# No MQTT: its plugin elects a leader first, and the listener of AMQP, the last of all, waits for that.
PLUGINS = "[rabbitmq_stomp]."
# A first start compiles nothing but creates a database; two busy cores need their time. It takes 11 s there, and was seen to take
# for ever once, after its banner: then it is started again.
READY_WITHIN_S = 90
STARTS = 3


class NotReadyError(Exception):
    """It does not listen in time."""


class RabbitMq:
    """Ports, from the first on: AMQP, STOMP, Erlang distribution, port mapper."""

    def __init__(self, first_port):
        self.amqp, self.stomp, self.distribution, self.mapper = range(first_port, first_port + 4)
        self.node = f"oracle{first_port}@localhost"

    def __enter__(self):
        for _ in range(STARTS - 1):
            try:
                return self._start()
            except NotReadyError as error:
                print(error, file=sys.stderr)
        return self._start()

    def _start(self):
        self.folder = tempfile.mkdtemp(prefix="thalweg-oracle-")
        # Its service user is not ours: everything below a folder that belongs to whoever runs this.
        config = os.path.join(self.folder, "rabbitmq.conf")
        with open(config, "w") as out:
            out.write(
                f"listeners.tcp.1 = 127.0.0.1:{self.amqp}\n"
                f"stomp.listeners.tcp.1 = 127.0.0.1:{self.stomp}\n"
                "log.console = false\nlog.file = rabbit.log\nlog.file.level = info\n"
            )
        plugins = os.path.join(self.folder, "enabled_plugins")
        with open(plugins, "w") as out:
            out.write(PLUGINS)
        home = os.path.join(self.folder, "home")
        os.mkdir(home)
        self.environment = {
            "PATH": os.environ["PATH"] + ":/usr/lib/rabbitmq/bin:/usr/sbin",
            "HOME": home,
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_NODE_PORT": str(self.amqp),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONFIG_FILE": config,
            "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
            "RABBITMQ_MNESIA_BASE": os.path.join(self.folder, "mnesia"),
            "RABBITMQ_LOG_BASE": os.path.join(self.folder, "log"),
            "RABBITMQ_PID_FILE": os.path.join(self.folder, "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}",
        }
        self.mapper_process = subprocess.Popen(
            ["epmd", "-port", str(self.mapper), "-address", "127.0.0.1"], env=self.environment
        )
        # The wrapper in /usr/sbin insists on a service user; the script below it does not.
        self.process = subprocess.Popen(
            ["/usr/lib/rabbitmq/bin/rabbitmq-server"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=open(os.path.join(self.folder, "stdout"), "w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self):
        import socket

        deadline = time.monotonic() + READY_WITHIN_S
        for port in (self.amqp, self.stomp):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise NotReadyError(f"RabbitMQ does not listen on {port}:\n{self._log()}") from None
                    time.sleep(0.2)

    def _log(self):
        """The last that it wrote to its output and, from its banner on, to its log: each step of its start is there."""
        written = ""
        for name in ("stdout", "log/rabbit.log"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path) as log:
                    written += log.read()[-3000:]
        return written

    def version(self):
        found = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"], capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        except ProcessLookupError:
            pass
        self.mapper_process.terminate()
        self.mapper_process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    with RabbitMq(int(sys.argv[1])) as broker:
        print(f"amqp {broker.amqp} stomp {broker.stomp}", flush=True)
        sys.stdin.read()
