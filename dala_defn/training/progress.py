"""The progress bar of ``fit``: on standard error, so that what a program prints stays its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

WIDTH = 24
EVERY = 0.1


class Progress:
    """One line an epoch; with ``verbose=1`` on a terminal the line is drawn again while the epoch runs."""

    def __init__(self, verbose: int, epochs: int, batches: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = not verbose
        self._live = verbose == 1 and self._stream.isatty()
        self._epochs = epochs
        self._batches = batches
        self._width = len(str(epochs))

    def start(self, epoch: int) -> None:
        """An epoch begins."""
        self._epoch = epoch
        self._began = self._drawn = time.perf_counter()
        self._long = 0

    @property
    def live(self) -> bool:
        """Whether ``step`` draws anything."""
        return self._live

    def due(self) -> bool:
        """Whether it is time to draw again."""
        return self._live and time.perf_counter() - self._drawn >= EVERY

    def step(self, batch: int, logs: Mapping[str, float]) -> None:
        """Draws the state of the epoch after a batch, counted from 1."""
        self._drawn = time.perf_counter()
        done = WIDTH * batch // max(self._batches, 1)
        bar = "=" * done + " " * (WIDTH - done)
        left = (self._drawn - self._began) / batch * (self._batches - batch)
        self._line(f"[{bar}] {batch}/{self._batches} {left:4.0f} s left  {_show(logs)}", end="")

    def end(self, logs: Mapping[str, float]) -> None:
        """Writes the line of the finished epoch."""
        if self._quiet:
            return
        took = time.perf_counter() - self._began
        per = took / max(self._batches, 1)
        pace = f"{per * 1e3:.1f} ms" if per >= 1e-3 else f"{per * 1e6:.0f} us"
        bar = f"[{'=' * WIDTH}] " if self._live else ""
        self._line(f"{bar}{self._batches} steps {took:5.1f} s {pace}/step  {_show(logs)}", end="\n")

    def _line(self, text: str, end: str) -> None:
        line = f"epoch {self._epoch + 1:>{self._width}}/{self._epochs} {text}"
        padded = line.ljust(self._long) if self._live else line
        self._long = len(line)
        self._stream.write(("\r" if self._live else "") + padded + end)
        self._stream.flush()


def _show(logs: Mapping[str, float]) -> str:
    plain = {name: x == 0 or 1e-3 <= abs(x) < 1e4 for name, x in logs.items()}
    return "  ".join(f"{name} {x:.4f}" if plain[name] else f"{name} {x:.3e}" for name, x in logs.items())
