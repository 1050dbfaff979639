"""A private RabbitMQ: its own node name, cookie, ports, folder and port mapper; it leaves nothing behind."""
import os
import subprocess

import pika

from support.broker import Broker, find_program
from support.nginx import free_port
from support.under import PATIENCE

FOLDER = "/usr/lib/rabbitmq/bin"
PROGRAM = FOLDER + "/rabbitmq-server" if os.path.exists(FOLDER + "/rabbitmq-server") else None


class Rabbit(Broker):
    start_seconds = 90

    def __init__(self, folder, config="", **settings):
        super().__init__(folder, **settings)
        self.config = config
        self.epmd_port, self.dist_port = free_port(), free_port()
        self.epmd = None

    def environment(self):
        return {**{k: v for k, v in os.environ.items() if not k.startswith(("RABBITMQ_", "ERL_"))},
                "HOME": self.folder, "ERL_EPMD_PORT": str(self.epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODENAME": "ob%d@localhost" % self.port, "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(self.dist_port),
                "RABBITMQ_MNESIA_BASE": self.folder + "/data", "RABBITMQ_LOG_BASE": self.folder + "/logs",
                "RABBITMQ_LOGS": "-", "RABBITMQ_PID_FILE": self.folder + "/pid",
                "RABBITMQ_CONFIG_FILE": self.folder + "/rabbitmq", "RABBITMQ_CONF_ENV_FILE": self.folder + "/env.conf",
                "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder + "/plugins", "RABBITMQ_SERVER_ERL_ARGS": "+S 1:1 +sbwt none",
                "RABBITMQ_CTL_ERL_ARGS": "+S 1:1"}

    def command(self):
        for name, text in (("rabbitmq.conf", self.config + "\n"), ("env.conf", ""), ("plugins", "[].\n")):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        return [PROGRAM]

    def start(self):
        if not self.epmd:
            self.epmd = subprocess.Popen([find_program("epmd"), "-port", str(self.epmd_port), "-address", "127.0.0.1"],
                                         stdin=subprocess.DEVNULL, env=self.environment())
        return super().start()

    def is_ready(self):
        try:
            self.connection().close()
            return True
        except pika.exceptions.AMQPError as error:
            raise OSError from error

    def connection(self, **more):
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, **more))

    def url(self, vhost=None):
        return "amqp://127.0.0.1:%d%s" % (self.port, "/" + vhost if vhost else "")

    def control(self, *words):
        """rabbitmqctl; takes seconds."""
        subprocess.run([FOLDER + "/rabbitmqctl", "-q", *words], env=self.environment(), check=True, timeout=60 * PATIENCE,
                       stdout=subprocess.DEVNULL, cwd=self.folder)

    def queue(self, name, exchange=None, key="#", **arguments):
        conn = self.connection()
        channel = conn.channel()
        channel.queue_declare(name, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        if exchange:
            channel.exchange_declare(exchange, "topic", durable=True)
            channel.queue_bind(name, exchange, key)
        conn.close()

    def delete(self, *queues):
        conn = self.connection()
        for name in queues:
            conn.channel().queue_delete(name)
        conn.close()

    def messages(self, queue):
        """[(method, properties, body)], taken out."""
        conn = self.connection()
        channel = conn.channel()
        found = []
        while (got := channel.basic_get(queue, auto_ack=True))[0]:
            found.append(got)
        conn.close()
        return found

    def __exit__(self, *_):
        super().__exit__(*_)
        if self.epmd:
            self.epmd.kill()
            self.epmd.wait()
