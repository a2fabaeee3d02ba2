"""The first screen of the guide, as it stands there."""

import pytest

from programs import at, blocks, ran


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_screen_runs(server, tmp_path, number):
    assert ran(tmp_path, at(server.port, blocks("redis-py's Lock")[number])) == "mine: True\n"
