"""Runs one command in a process group of its own and hands its output on, line by line, with the time of each line.

The output goes through a pseudo terminal, because a C program that writes to a pipe keeps its lines back until it ends.
"""
import os
import pty
import select
import signal
import subprocess
import termios
import threading
import time

_running = set()
_lock = threading.Lock()


def kill_group(process, number=signal.SIGKILL):
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_all():
    """Ends what runs, first politely, so that tests can stop servers of their own."""
    with _lock:
        processes = list(_running)
    for process in processes:
        kill_group(process, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(0.05)
    for process in processes:
        kill_group(process)


def _open_terminal():
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST  # newlines as they are
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    return master, slave


def _read(master):
    try:
        return os.read(master, 65536)
    except OSError:  # the last writer is gone
        return b""


def run(command, on_line, env, cwd, timeout):
    """Returns (exit code, timed out). on_line(text, monotonic time) is called in this thread."""
    master, slave = _open_terminal()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=env, cwd=cwd,
                                   start_new_session=True)
    except OSError as error:
        os.close(master)
        on_line("cannot run %s: %s" % (command[0], error.strerror), time.monotonic())
        return 127, False
    finally:
        os.close(slave)
    with _lock:
        _running.add(process)
    deadline = time.monotonic() + timeout
    timed_out = False
    rest = b""
    try:
        while True:
            ready, _, _ = select.select([master], [], [], 0.05)
            if ready:
                data = _read(master)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                now = time.monotonic()
                for line in lines:
                    on_line(line.decode("utf-8", "replace"), now)
            elif process.poll() is not None:
                break
            if time.monotonic() > deadline and not timed_out:
                timed_out = True
                kill_group(process)
        process.wait()
    finally:
        kill_group(process)  # whatever it left behind in its group
        with _lock:
            _running.discard(process)
        os.close(master)
    if rest:
        on_line(rest.decode("utf-8", "replace"), time.monotonic())
    return process.returncode, timed_out
