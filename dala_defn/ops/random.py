"""Random bits from keys: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC11). The i-th element depends on the key and i alone, so bits are the same on every device and thread count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dala_defn import dtypes
from dala_defn.dtypes import UNSIGNED, DType, uint32
from dala_defn.errors import DTypeError, ShapeError
from dala_defn.ir.types import Type
from dala_defn.ops.movement import spread_batch
from dala_defn.ops.samples import Array
from dala_defn.ops.spec import ZERO_GRAD, Case, OpSpec, check_dtype, define, no_flops, outputs_flops
from dala_defn.shapes import Dim, Shape, show

KEY_RECORD = np.dtype([("hi", np.uint32), ("lo", np.uint32)])
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def pack_keys(words: Array) -> Array:
    """uint32[..., 2] as an array of records, one a key."""
    return np.ascontiguousarray(words, np.uint32).view(KEY_RECORD)[..., 0]


def unpack_keys(keys: Array) -> Array:
    """Records as uint32[..., 2]."""
    return np.stack([keys["hi"], keys["lo"]], -1)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32 on arrays of uint32."""
    k0, k1 = key
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x0, x1 = counter[0] + keys[0], counter[1] + keys[1]
        for block in range(5):
            for r in _ROTATIONS[block % 2]:
                x0 = x0 + x1
                x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
            x0 = x0 + keys[(block + 1) % 3]
            x1 = x1 + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x0, x1


def _wrap_infer(x: Type) -> tuple[Type, ...]:
    check_dtype("random_wrap", x.dtype, (uint32,))
    if not x.shape or x.shape[-1] != 2:
        raise ShapeError(f"random_wrap: the last axis must have size 2: {show(x.shape)}", op="random_wrap")
    return (Type(dtypes.key, x.shape[:-1]),)


def _wrap_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((2,), (3, 2), (0, 2), (2, 1, 2)):
        yield Case((rng.integers(0, 2**32, shape, dtype=np.uint32),), {})


random_wrap: OpSpec = define(
    name="random_wrap",
    code=0xB0,
    family="random",
    attrs={},
    accepts=(uint32,),
    result="own",
    infer=_wrap_infer,
    reference=pack_keys,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=lambda n, args, batched: (random_wrap(args[0]),),
    fusion="movement",
    flops=no_flops,
    sample=_wrap_cases,
    ulp=0,
    doc="Keys from pairs of uint32 words in the last axis.",
    example="random_wrap(dd.array([0, 42], dtype=dd.uint32))",
    since="0.1",
)


def _unwrap_infer(x: Type) -> tuple[Type, ...]:
    check_dtype("random_unwrap", x.dtype, (dtypes.key,))
    return (Type(uint32, (*x.shape, 2)),)


def _key(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32)


def _unwrap_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((), (3,), (0,), (2, 1)):
        yield Case((_key(rng, shape),), {})


random_unwrap: OpSpec = define(
    name="random_unwrap",
    code=0xB1,
    family="random",
    attrs={},
    accepts=(dtypes.key,),
    result="own",
    infer=_unwrap_infer,
    reference=unpack_keys,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=lambda n, args, batched: (random_unwrap(args[0]),),
    fusion="movement",
    flops=no_flops,
    sample=_unwrap_cases,
    ulp=0,
    doc="The uint32 words of keys, in a new last axis of size 2.",
    example="random_unwrap(dd.random.key(0))",
    since="0.1",
)


def _fold_infer(key: Type, data: Type) -> tuple[Type, ...]:
    check_dtype("random_fold_in", key.dtype, (dtypes.key,))
    check_dtype("random_fold_in", data.dtype, (uint32,))
    if key.shape != data.shape:
        raise ShapeError(
            f"random_fold_in: keys {show(key.shape)} and data {show(data.shape)} differ in shape", op="random_fold_in"
        )
    return (key,)


def _fold(key: Array, data: Array) -> Array:
    a, b = threefry((key["hi"], key["lo"]), (np.zeros_like(data), data))
    return pack_keys(np.stack([a, b], -1))


def _fold_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for shape in ((), (3,), (0,)):
        yield Case((_key(rng, shape), rng.integers(0, 2**32, shape, dtype=np.uint32)), {})


random_fold_in: OpSpec = define(
    name="random_fold_in",
    code=0xB2,
    family="random",
    attrs={},
    accepts=(dtypes.key,),
    result="own",
    infer=_fold_infer,
    reference=_fold,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=lambda n, args, batched: (random_fold_in(*spread_batch(n, args, batched)),),
    fusion="opaque",
    flops=outputs_flops,
    sample=_fold_cases,
    ulp=0,
    doc="A new key for each pair of a key and a uint32 number.",
    example="random_fold_in(dd.random.key(0), dd.array(3, dtype=dd.uint32))",
    since="0.1",
)


def _bits_infer(key: Type, *, shape: Shape, dtype: DType) -> tuple[Type, ...]:
    check_dtype("random_bits", key.dtype, (dtypes.key,))
    if dtype not in UNSIGNED:
        raise DTypeError(f"random_bits gives unsigned integers, not {dtype}", op="random_bits")
    out: tuple[Dim, ...] = (*key.shape, *shape)
    return (Type(dtype, out),)


def _bits(key: Array, *, shape: Sequence[int], dtype: DType) -> Array:
    n = int(np.prod(shape, dtype=np.int64))
    at = np.arange(n, dtype=np.uint64)
    hi, lo = (at >> np.uint64(32)).astype(np.uint32), at.astype(np.uint32)
    k0, k1 = key["hi"][..., None], key["lo"][..., None]
    a, b = threefry((k0, k1), (np.broadcast_to(hi, (*key.shape, n)), np.broadcast_to(lo, (*key.shape, n))))
    if dtype is dtypes.uint64:
        out = (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
    else:
        out = (a ^ b).astype(dtype.dtype)
    return out.reshape((*key.shape, *shape))


def _bits_cases(rng: np.random.Generator, dtype: DType) -> Iterator[Case]:
    for to in UNSIGNED:
        for keys, shape in (((), ()), ((), (5,)), ((), (0,)), ((), (3, 2)), ((2,), (3,)), ((2, 1), (2, 2))):
            yield Case((_key(rng, keys),), {"shape": shape, "dtype": to})


SPLIT = 0x73706C69  # what ``split`` folds into a key, and nobody by chance

random_bits: OpSpec = define(
    name="random_bits",
    code=0xB3,
    family="random",
    attrs={"shape": "dims", "dtype": "dtype"},
    accepts=(dtypes.key,),
    result="own",
    infer=_bits_infer,
    reference=_bits,
    vjp=ZERO_GRAD,
    jvp=ZERO_GRAD,
    batch=lambda n, args, batched, *, shape, dtype: (random_bits(args[0], shape=shape, dtype=dtype),),
    fusion="elementwise",
    flops=lambda i, o, a: 40 * outputs_flops(i, o, a),
    sample=_bits_cases,
    ulp=0,
    doc="Uniform random unsigned integers, of ``shape`` for each key. Element i is Threefry-2x32 of the key at counter "
    "i: both words for uint64, their exclusive or for uint32, its low bits for uint16 and uint8.",
    example="random_bits(dd.random.key(0), shape=(3,), dtype=dd.uint32)",
    since="0.1",
)
