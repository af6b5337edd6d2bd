"""Whose memory an array is: donation, aliasing, strides, and that nothing is kept too long."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
from resident import affine, device

import dala_defn as dd
from dala_defn import bridge

# Donation


@dd.defn(donate_argnames="state")
def advance(state, x):
    return state + x


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def test_a_donated_array_is_gone_and_says_so():
    state = device(4)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    for use in (
        np.asarray,
        lambda s: s + 1,
        lambda s: s.tolist(),
        repr,
        lambda s: affine(s),
        lambda s: advance(s, 1.0),
    ):
        with pytest.raises(dd.DonatedError, match="donated"):
            use(state)
    assert state.shape == (4,)


def test_donated_storage_is_used_again():
    state = device(1000)
    where = address(state)
    gc.collect()
    out = advance(state, np.float32(1))
    assert address(out) == where


def test_a_shared_handle_is_copied():
    state = device(4)
    other = bridge.share(state)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert np.asarray(other).tolist() == [1] * 4


def test_a_live_view_keeps_the_array():
    state = device(4)
    view = np.asarray(state)
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert view.tolist() == [1] * 4
    assert np.asarray(state).tolist() == [1] * 4  # it was copied, so it was not given away


def test_a_view_of_a_view_keeps_the_array():
    state = device(4)
    part = np.asarray(state)[1:3]
    gc.collect()
    out = advance(state, np.float32(1))
    assert np.asarray(out).tolist() == [2] * 4
    assert part.tolist() == [1, 1]


def test_one_array_given_twice_is_no_reason_for_a_wrong_result():
    state = device(4)
    out = advance(state, state)
    assert np.asarray(out).tolist() == [2] * 4


@dd.defn(donate_argnames="state")
def look(state, i):
    return state * 2, dd.take(state, i)


def test_a_failed_run_leaves_donated_arrays():
    state = device(4)
    look(device(4), np.int32(1))
    with pytest.raises(dd.IndexOutOfRange):
        look(state, np.int32(9))
    assert np.asarray(state).tolist() == [1] * 4
    doubled, _ = look(state, np.int32(3))
    assert np.asarray(doubled).tolist() == [2] * 4


def test_numpy_arrays_are_never_written_to():
    state = np.ones(1000, np.float32)
    assert np.asarray(advance(state, np.float32(1)))[0] == 2
    assert (state == 1).all()


# Aliasing (ffi-01, ffi-02)


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_an_array_does_not_share_the_memory_of_its_source(n):
    x = np.arange(n, dtype=np.float32)
    t = dd.array(x)
    x[3] = -7
    assert np.asarray(t)[3] == 3


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_results_never_share_the_memory_of_what_was_borrowed(n):
    x = np.arange(n, dtype=np.float32).reshape(2, -1)
    same = dd.defn(
        lambda x: (x, x.reshape(-1), x.T, x[:, 1:], dd.flip(x, 0), x.astype(dd.float32), dd.stop_gradient(x))
    )
    for _ in range(2):
        outs = same(x)
        before = [np.array(np.asarray(y)) for y in outs]
        for y in outs:
            assert not np.shares_memory(np.asarray(y), x)
        x[0, 1] -= 100
        for y, was in zip(outs, before, strict=True):
            assert (np.asarray(y) == was).all()


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_a_result_as_numpy_is_read_only_and_outlives_its_array(n):
    y = affine(np.arange(n, dtype=np.float32))
    view = np.asarray(y)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    gone = weakref.ref(y)
    del y
    gc.collect()
    # From Python 3.12 on NumPy takes the buffer protocol, and the view holds on to the array.
    assert gone() is None or sys.version_info >= (3, 12)
    for _ in range(5):
        affine(np.full(n, 9, np.float32))
    assert view[0] == 1
    assert view[n - 1] == 2 * (n - 1) + 1


STRIDED = {
    "transposed": np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2).transpose(0, 2, 3, 1),
    "every second": np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2],
    "backwards": np.arange(12, dtype=np.float32)[::-1],
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "broadcast": np.broadcast_to(np.float32(3), (2, 3)),
    "rank 0": np.array(5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "swapped": np.arange(6, dtype=">f4"),
    "unaligned": np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.float32, offset=1),
}


@pytest.mark.parametrize("name", STRIDED)
def test_whatever_the_strides_the_numbers_are_right(name):
    x = STRIDED[name]
    x.flags.writeable = False
    want = np.array(x, np.float32)
    for y in (dd.array(x), dd.defn(lambda x: x)(x), dd.defn(lambda x: x)(dd.array(x))):
        assert y.shape == x.shape
        np.testing.assert_array_equal(np.asarray(y), want)
    np.testing.assert_array_equal(np.asarray(affine(x)), want * 2 + 1)
    np.testing.assert_array_equal(np.asarray(x), want)


def test_a_bfloat16_view_keeps_the_array():
    state = device(4).astype(dd.bfloat16)
    part = np.asarray(state)[1:3]
    gc.collect()
    dd.defn(lambda s: s + 1, donate_argnames="s")(state)
    assert part.tolist() == [1, 1]
    assert np.asarray(state).tolist() == [1] * 4
