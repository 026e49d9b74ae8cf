import pytest

import msgstore


@pytest.fixture
def store():
    with msgstore.open() as opened:
        yield opened


@pytest.fixture
def log(tmp_path):
    with msgstore.open(tmp_path / "log.msl") as opened:
        yield opened
