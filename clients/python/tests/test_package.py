"""The package as it is built: installed into an empty environment, where the README's first screen runs."""

import os
import pathlib
import re
import subprocess
import sys
import venv

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SERVER = re.compile(r"redis\.Redis\(\)|\bRedis\(\)")
VERSIONS = ["redis==8.1.0", "redis==5.0.0"] if os.environ.get("LONG") else ["redis==8.1.0"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize("library", VERSIONS)
def test_the_first_screen_runs_from_what_is_installed(built, server, tmp_path, library):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    [wheel] = built.glob("*.whl")  # which was built from the sdist
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
                    "--disable-pip-version-check", wheel, library], check=True)
    first = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    for number, program in enumerate(first):
        text = SERVER.sub(lambda it: it.group().replace("()", f"(port={server.port})"), program)
        (tmp_path / f"first{number}.py").write_text(text)
        done = subprocess.run([python, f"first{number}.py"], cwd=tmp_path, check=True, capture_output=True, text=True)
        assert re.fullmatch(r"fence writes with \d{16}\n", done.stdout), done
    assert list((tmp_path / "env").rglob("redis_lock_client/py.typed"))
