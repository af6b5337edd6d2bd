"""What the tests of public functions share: dtypes, shapes, operands, and comparison with a NumPy result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import dala_defn as dd
from dala_defn import dtypes
from dala_defn.dtypes import DType

Array = np.ndarray[Any, Any]
TOLERANCE = {dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2, dtypes.float32: 4e-6, dtypes.float64: 4e-14}

sizes = st.sampled_from((0, 1, 1, 2, 3, 5))
shapes = st.lists(sizes, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)
reals = st.sampled_from(dtypes.NUMERIC)
floats = st.sampled_from(dtypes.FLOATS)
any_dtype = st.sampled_from(dtypes.ARRAYS)


def draw_array(dtype: DType, shape: tuple[int, ...], seed: int, *, special: bool = False, least: float = -4.0) -> Array:
    """Moderate numbers; with ``special`` also infinities, NaN and zeros."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        low = max(np.iinfo(dtype.dtype).min, int(np.ceil(least)))
        return np.asarray(rng.integers(low, 10, shape)).astype(dtype.dtype)
    out = np.asarray(rng.uniform(least, 4, shape))
    if special:
        odd = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]), shape)
        out = np.where(rng.random(shape) < 0.3, odd, out)
    return out.astype(dtype.dtype)


def wide(x: Any) -> Array:
    """Floats in float64; anything else as it is."""
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def check(got: Any, want: Any, dtype: DType | None = None, scale: Any = 1.0) -> None:
    """Compares shape, dtype and numbers; floats within a few units at the larger of the result and ``scale``."""
    want = np.asarray(want)
    found = np.asarray(got)
    assert tuple(got.shape) == found.shape == want.shape, f"{found.shape}, not {want.shape}"
    if dtype is not None:
        assert got.dtype is dtype, f"{got.dtype}, not {dtype}"
    if not got.dtype.is_float:
        assert np.array_equal(found, want), f"{found}\n{want}"
        return
    tolerance = TOLERANCE[got.dtype]
    with np.errstate(all="ignore"):
        rounded = want.astype(found.dtype)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        distance = np.abs(wide(found) - wide(want))
        near = distance <= tolerance * np.maximum(np.abs(wide(want)), scale)
        overflow = np.isinf(wide(found)) & (np.abs(wide(want)) > (1 - tolerance) * float(dd_max(got.dtype)))
    assert np.all(same | near | overflow), f"{found}\n{want}"


def dd_max(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.dtype).max)


def everywhere(f: Callable[..., Any], args: tuple[Any, ...], tmp_path: Any) -> list[Any]:
    """The results of ``f`` eagerly on Burn, on the reference, under ``@defn`` on both, and exported and reloaded."""
    compiled = dd.defn(f)
    path = tmp_path / "f.dala"
    compiled.export(path, *args)
    arrays = [np.asarray(a) for a in args]
    loaded = dd.load(path)(*arrays)
    loaded = tuple(loaded.values()) if isinstance(loaded, dict) else loaded
    out = [f(*args), compiled(*args), loaded]
    with dd.using("reference"):
        out += [f(*args), dd.defn(f)(*args)]
    return out
