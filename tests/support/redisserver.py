"""A private Redis: its own port, folder and append-only file; it leaves nothing behind."""
import redis

from support.broker import Broker, find_program

PROGRAM = find_program("redis-server")


class Redis(Broker):
    def command(self):
        words = [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always"]
        for name, value in self.settings.items():
            words += ["--" + name.replace("_", "-"), *str(value).split()]
        return words

    def url(self, db=""):
        return "redis://127.0.0.1:%d%s" % (self.port, "/%s" % db if db != "" else "")

    def client(self, **more):
        return redis.Redis(port=self.port, decode_responses=True, password=self.settings.get("requirepass"), **more)

    def is_ready(self):
        try:
            return self.client().ping()
        except redis.exceptions.BusyLoadingError:
            return False
        except redis.exceptions.ConnectionError as error:
            raise OSError from error

    def entries(self, stream, **more):
        """The fields of each entry."""
        return [fields for _, fields in self.client(**more).xrange(stream)]
