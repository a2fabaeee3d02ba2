"""The programs of the README, as they stand there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import redis_lock_client
from servers import Server

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
SOURCE = str(pathlib.Path(redis_lock_client.__file__).parents[1])
PROGRAMS = {"threads": "import redis\nfrom redis_lock_client import Locks\n\nwith", "asyncio": "import asyncio",
            "metrics": "opentelemetry", "quorum": "quorum", "testing": "testing"}
PRINTS = {"metrics": "", "testing": "what your program does then\n"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_readme_runs(start, name):
    [program] = [it for it in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if PROGRAMS[name] in it]
    ports = [Server(start("server")).port for _ in range(3)]
    program = program.replace("Redis()", f"Redis(port={ports[0]})").replace("(6379, 6380, 6381)", str(tuple(ports)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": SOURCE})
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(PRINTS.get(name, r"fence writes with \d{16}\n"), done.stdout)
