"""Programs of frameworks, as processes of their own."""

import os
import pathlib
import re
import subprocess
import sys
from contextlib import contextmanager

import redis_lock_client

SOURCE = str(pathlib.Path(redis_lock_client.__file__).parents[1])
GUIDE = (pathlib.Path(__file__).parents[2] / "ADAPTERS.md").read_text()


def blocks(heading):
    """The programs of one part of the guide."""
    part = re.split(rf"^## {heading}$", GUIDE, flags=re.MULTILINE)[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", part, re.DOTALL)


def at(port, program):
    """The same program, on this server."""
    program = re.sub(r"\bRedis\(\)", f"Redis(port={port})", program)
    return program.replace("localhost:6379", f"127.0.0.1:{port}")


@contextmanager
def running(folder, *words, log="log"):
    """A program of Python's, until the end of the block. Its output is in a file."""
    path = folder / log
    with path.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=folder, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": "1", "C_FORCE_ROOT": "1"})
    process.log = path
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ran(folder, program):
    """What a program prints."""
    (folder / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": SOURCE})
    assert done.returncode == 0, done.stderr
    return done.stdout
