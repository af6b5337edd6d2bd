"""Options and profiles for all tests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Kernels that tests compile are kept apart from the user's, and for the next run.
os.environ.setdefault("DALA_CACHE", str(Path(tempfile.gettempdir()) / f"dala-test-kernels-{os.getuid()}"))

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

# The same examples every time: a change that nobody made must not turn a run red.
settings.register_profile(
    "ci", max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("long", max_examples=5000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite expected outputs with what came out; read the diff")


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--bless"))
