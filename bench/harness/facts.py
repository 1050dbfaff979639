"""The machine, as far as figures depend on it. Nothing that names it."""
import os
import platform


def _cpu():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory():
    with open("/proc/meminfo") as file:
        kilobytes = int(file.readline().split()[1])
    return "%.0f GiB" % (kilobytes / 1048576)


def load():
    """One-minute load: well above what the measurement itself makes, somebody else was busy too."""
    return round(os.getloadavg()[0], 2)


def machine():
    return {"cpu": _cpu(), "cores": os.cpu_count(), "memory": _memory(), "kernel": platform.release()}
