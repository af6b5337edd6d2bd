"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def test_the_first_example_runs_and_learns() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict[str, object] = {}
    lines = compile(code, "README.md", "exec")
    exec(lines, names)
    np.testing.assert_allclose(np.asarray(names["w"]), [0.5, -1.0, 0.25, 2.0], atol=0.05)


def test_files_that_it_links_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).resolve().parents[1] / target).exists(), target
