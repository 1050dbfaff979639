"""A real Kafka broker of one node for tests: own data, own ports, gone at the end. tools/kafka/start says how.

    with KafkaBroker() as broker:
        broker.create("orders", partitions=3)
        drive("kafka", {"brokers": broker.address}, [...])
        records = broker.read("orders")
        broker.kill(); broker.start()            # -9, and again with the same data

`users` makes a second listener, broker.sasl_address, where they log in (SASL PLAIN); without a grant they may do nothing.
"""
import collections
import os
import shutil
import signal
import subprocess
import tempfile
import time

from support.pgserver import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tools", "kafka", "start")
START_TIMEOUT = 90

Record = collections.namedtuple("Record", "partition offset key value headers")


class Unreachable(Exception):
    """The broker is not here, and where it comes from cannot be reached."""


def fetch():
    """Makes sure that the broker's files are here."""
    done = subprocess.run([SCRIPT, "--fetch"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == 77:
        raise Unreachable(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr


def require():
    """Skips where there is no broker to be had; a library that is missing is a mistake of the machine, and said so."""
    import pytest  # the benchmarks have none
    pytest.importorskip("confluent_kafka", reason="python3-confluent-kafka is missing: tools/deps test")
    try:
        fetch()
    except Unreachable as why:
        pytest.skip(str(why))


class KafkaBroker:
    def __init__(self, settings=None, users=None):
        self.folder = tempfile.mkdtemp(prefix="ob-kafka-")
        self.port, self.controller, self.sasl_port = free_port(), free_port(), free_port()
        self.address = "127.0.0.1:%d" % self.port
        self.sasl_address = "127.0.0.1:%d" % self.sasl_port
        self.settings = dict(settings or {})
        if users:
            self._add_users(users)
        self.process = None

    def _add_users(self, users):
        login = "".join(' user_%s="%s"' % pair for pair in users.items())
        self.settings.update({
            "listeners": "PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d,SASL://127.0.0.1:%d" % (
                self.port, self.controller, self.sasl_port),
            "advertised.listeners": "PLAINTEXT://%s,SASL://%s" % (self.address, self.sasl_address),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config":
                "org.apache.kafka.common.security.plain.PlainLoginModule required" + login + ";",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        })

    def start(self):
        words = ["%s=%s" % pair for pair in self.settings.items()]
        with open(os.path.join(self.folder, "log"), "a") as log:
            self.process = subprocess.Popen([SCRIPT, self.folder, str(self.port), str(self.controller), *words],
                                            stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.2)
        return self

    def _answers(self):
        from confluent_kafka import KafkaException
        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def admin(self):
        from confluent_kafka.admin import AdminClient
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def log(self):
        with open(os.path.join(self.folder, "log")) as file:
            return "".join(file.readlines()[-40:])

    def create(self, topic, partitions=1, **config):
        from confluent_kafka.admin import NewTopic
        config = {name.replace("_", "."): str(value) for name, value in config.items()}
        admin = self.admin()  # must live until the answer is there
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(timeout=30)

    def grant(self, user, right, *what):
        """what: "--cluster", or "--topic" and its name."""
        subprocess.run([SCRIPT, "--acl", self.address, "--add", "--allow-principal", "User:" + user,
                        "--operation", right, *what], check=True, stdout=subprocess.DEVNULL, timeout=60)

    def read(self, topic):
        """All records of a topic, by partition and offset."""
        from confluent_kafka import Consumer, TopicPartition
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "t", "enable.auto.commit": False,
                             "log_level": 0})
        records = []
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            for number in sorted(partitions):
                low, high = self._ends(consumer, TopicPartition(topic, number))
                consumer.assign([TopicPartition(topic, number, low)])
                position = low
                while position < high:
                    for record in consumer.consume(10000, timeout=1):
                        assert not record.error(), record.error()
                        position = record.offset() + 1
                        records.append(Record(number, record.offset(), record.key(), record.value(),
                                              {name: value.decode() for name, value in record.headers() or []}))
        finally:
            consumer.close()
        return records

    def _ends(self, consumer, partition):
        """The first and the next offset. A partition just made, or of a broker just started, may not have a leader yet."""
        from confluent_kafka import KafkaError, KafkaException
        passing = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
        deadline = time.monotonic() + 30
        while True:
            try:
                return consumer.get_watermark_offsets(partition, timeout=30)
            except KafkaException as refused:
                if refused.args[0].code() not in passing or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def kill(self):
        """The power goes: the process group gets -9."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        require()
        return self.start()

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
