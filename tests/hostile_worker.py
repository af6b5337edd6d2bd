"""Runs mutants in a process of its own: ``python hostile_worker.py PART PARTS START``, a line of JSON an outcome.

A line is printed before and after each mutant, so that a process that dies names the mutant that killed it.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import tempfile
import time

import mutants
import numpy as np

import dala_defn as dd
from dala_defn import bridge
from dala_defn.array import host_array
from dala_defn.dtypes import BY_SHORT
from dala_defn.errors import DalaError, EnginePanic
from dala_defn.executors.burn import BurnExecutor
from dala_defn.executors.reference import ReferenceExecutor
from dala_defn.ir import Type
from dala_defn.ir.codec import decode
from dala_defn.ir.program import state_path
from dala_defn.shapes import evaluate, parse_dim

SECONDS = 20
LOOPS = 1.5  # seconds after which a loop without an end is stopped
LIMIT = 192 << 20
MOST_RSS_KB = 1_500_000
ARGUMENT_BYTES = 1 << 22


class NoArguments(Exception):
    """There are none of these sizes, or they would be too large to make."""


def argument(dtype, shape):
    """Numbers of every kind, small ones."""
    count = math.prod(shape)
    if count * 8 > ARGUMENT_BYTES or min(shape, default=0) < 0:
        raise NoArguments
    if dtype.kind == "k":
        return host_array(np.arange(2 * count, dtype=np.uint32).reshape(*shape, 2), dtype)
    ramp = np.arange(count).reshape(shape)
    if dtype.kind == "b":
        return ramp % 2 == 0
    return (ramp % 5 - (dtype.kind == "f") * 2).astype(dtype.dtype)


def sizes_for(dims):
    """A size for every name."""
    return {name: bounds["min"] if bounds["min"] > 2 else min(2, bounds["max"] or 2) for name, bounds in dims.items()}


def run_artifact(executor):
    def go(path, data):
        artifact = dd.load(path, executor)
        sizes = {n: {"min": lo, "max": hi} for n, (lo, hi) in artifact.dims.items()}
        out = {}
        for entry in artifact.entries.values():
            at = sizes_for(sizes)
            args = [argument(t.dtype, [evaluate(d, at) for d in t.shape]) for _, t in entry.args]
            found = entry(*args) if entry.results else []
            found = list(found.values()) if isinstance(found, dict) else [found] if entry.results else []
            out[entry.name] = [np.array(np.asarray(x)) for x in found]
        return out

    return go


def run_unverified(path, data):
    """The reference on a program that decodes, whatever the verifier says."""
    program = decode(data, dd.ops.OPS)
    loaded = ReferenceExecutor(memory_limit=LIMIT).load(program)
    at = sizes_for({n: {"min": lo, "max": hi} for n, (lo, hi) in program.dims.items()})
    out = {}
    for i, e in enumerate(program.entries):
        pairs = zip(e.args, e.graph.inputs, strict=True)
        types = [v.type for a, v in pairs if state_path(a.role) is None]
        args = [argument(t.dtype, [evaluate(d, at) for d in t.shape]) for t in types]
        shown = [v.type for r, v in zip(e.results, e.graph.outputs, strict=True) if state_path(r.role) is None]
        out[e.name] = [np.array(np.asarray(x)) for x in loaded.run(i, args, shown)]
    return out


def run_direct(path, data):
    loaded = ENGINE.load(data)
    ENGINE.open(path)
    info = loaded.info()
    out = {}
    at = sizes_for(info["dims"])
    for entry in info["entries"]:

        def port(row):
            dtype, shape = row["type"]
            return Type(BY_SHORT[dtype], tuple(parse_dim(d) if isinstance(d, str) else d for d in shape))

        given = [port(a) for a in entry["args"] if not a["role"].startswith("state:")]
        results = [port(r) for r in entry["results"] if not r["role"].startswith("state:")]
        args = [argument(t.dtype, [evaluate(d, at) for d in t.shape]) for t in given]
        found = loaded.run(loaded.entry(entry["name"]), args, results)
        out[entry["name"]] = [np.array(np.asarray(x)) for x in found]
    return out


def outcome(go, path, data):
    """("ok", values), ("refused", message), ("skipped", "") or ("broken", message)."""
    try:
        with dd.time_limit(LOOPS):
            return "ok", go(path, data)
    except NoArguments:
        return "skipped", ""
    except EnginePanic as error:
        return "broken", f"panic: {error.reason} {error.details}"
    except DalaError as error:
        text = error.reason
        clear = bool(text.strip()) and len(text) < 1000 and error.log_line() and str(error)
        return (
            ("refused", f"{type(error).__name__}: {text}")
            if clear
            else ("broken", f"unclear: {len(text)} {text[:90]!r}")
        )
    except BaseException as error:
        return "broken", f"{type(error).__name__}: {str(error)[:300]}"


def same(a, b):
    """The same numbers but for rounding."""
    if a.keys() != b.keys():
        return False
    for name in a:
        for x, y in zip(a[name], b[name], strict=True):
            if x.dtype != y.dtype or x.shape != y.shape:
                return False
            if x.dtype.kind in "fV":
                wide = np.float64
                if not np.allclose(
                    x.astype(wide),
                    y.astype(wide),
                    rtol=2e-3 if x.dtype.itemsize == 2 else 1e-4,
                    atol=1e-5,
                    equal_nan=True,
                ):
                    return False
            elif not np.array_equal(x, y):
                return False
    return True


def check(data, path):
    with open(path, "wb") as f:
        f.write(data)
    found = {n: outcome(go, path, data) for n, go in PATHS.items()}
    problems = [f"{n}: {text}" for n, (kind, text) in found.items() if kind == "broken"]
    kinds = {n: kind for n, (kind, _) in found.items()}
    oracle = found["reference"]
    for name in ("flex", "direct"):
        kind, values = found[name]
        if kind != "ok":
            continue
        if oracle[0] == "ok":
            if not same(values, oracle[1]):
                problems.append(f"{name}: another answer than the reference")
        elif oracle[0] == "refused" and not oracle[1].startswith(("OutOfMemory", "TimeLimit")):
            # The runtime compares declared sizes when it knows them, Python the expressions (docs/format.md).
            kind, unverified = outcome(run_unverified, path, data)
            if kind != "ok" or not same(values, unverified):
                problems.append(f"{name}: runs what Python refuses: {oracle[1]}")
    return kinds, {n: str(text)[:200] for n, (kind, text) in found.items() if kind == "refused"}, problems


ENGINE = None
PATHS = {"reference": run_artifact("reference"), "flex": run_artifact("flex"), "direct": run_direct}


def main(argv):
    global ENGINE
    part, parts, first = map(int, argv)
    os.environ["RAYON_NUM_THREADS"] = "1"
    ENGINE = bridge.Engine("flex", {"memory_limit": LIMIT})
    executors = sys.modules["dala_defn.executors"]._executors
    executors["flex"] = BurnExecutor("flex", {"memory_limit": LIMIT})
    executors["reference"] = ReferenceExecutor(memory_limit=LIMIT)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mutant.dala")
        for i, (name, data) in enumerate(mutants.all_mutants()):
            if i % parts != part or i < first:
                continue
            print(json.dumps({"start": name, "at": i}), flush=True)
            signal.alarm(SECONDS)  # not caught: a call into the library would not return to a handler
            start = time.monotonic()
            kinds, texts, problems = check(data, path)
            signal.alarm(0)
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if rss > MOST_RSS_KB:
                problems.append(f"{rss} KB of memory")
            row = {
                "done": name,
                "kinds": kinds,
                "texts": texts,
                "problems": problems,
                "ms": int(1e3 * (time.monotonic() - start)),
            }
            print(json.dumps({**row, "rss": rss}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
