"""Signatures: what was signed loads, and nothing that differs from it in one bit does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from taken_apart import File

import dala_defn as dd
from dala_defn import bridge
from dala_defn import keys as native
from dala_defn.artifacts import as_keys
from dala_defn.errors import SignatureError

ROOT = Path(__file__).resolve().parents[1]
# RFC 8032, section 7.1: private and public keys of the tests 1 to 3, and of SHA(abc).
RFC_KEYS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
    ),
]
KEY, OTHER = b"k" * 32, b"o" * 32
X = np.ones((2, 4), np.float32)
EXECUTORS = ("flex", "reference")


@pytest.fixture
def signed(tmp_path):
    path = tmp_path / "mlp.dala"
    path.write_bytes(programs.mlp())
    dd.signing.sign(path, KEY)
    return path


def beside(path):
    return path.with_name(path.name + ".sig")


def refused(path, match, executors=EXECUTORS, **options):
    for executor in executors:
        with pytest.raises(SignatureError, match=match):
            dd.load(path, executor, **options)
    # The runtime alone: programs in C and Rust have nothing else.
    keys = as_keys(options["public_key"]) if options.get("public_key") is not None else ()
    with pytest.raises(SignatureError):
        bridge.Engine().open(path, keys)


@pytest.mark.parametrize(("private", "public"), RFC_KEYS)
def test_public_keys_are_those_of_rfc_8032(private, public):
    assert dd.signing.public_key(private).hex() == public
    assert dd.signing.public_key(bytes.fromhex(private)).hex() == public


def test_the_signature_is_that_of_the_primitive_over_domain_and_header(signed):
    # Made with another implementation (RFC 8032, section 6, in plain Python): the format is written down completely.
    data, signature = signed.read_bytes(), beside(signed).read_bytes()
    header = data[: 8 + int.from_bytes(data[:8], "little")]
    message = b"dala container header, signature version 1\0" + header
    assert signature == b"DALASIG\x01" + plain_public(KEY) + plain_sign(KEY, message)


def test_a_signed_file_loads_with_and_without_keys(signed):
    public = dd.signing.public_key(KEY)
    want = np.asarray(dd.load(signed)(X))
    for executor in EXECUTORS:
        for keys in (None, public, public.hex(), [dd.signing.public_key(OTHER), public]):
            artifact = dd.load(signed, executor, public_key=keys)
            assert artifact.signer == public
            np.testing.assert_allclose(np.asarray(artifact(X)), want, rtol=1e-6)
    data, signature = signed.read_bytes(), beside(signed).read_bytes()
    assert dd.load(data, signature=signature, public_key=public).signer == public
    assert dd.load(data).signer is None
    loaded = bridge.Engine().load(data, signature, [public])
    assert loaded.info()["entries"]


def test_an_unsigned_file_loads_unless_a_signer_is_demanded(signed):
    beside(signed).unlink()
    assert dd.load(signed).signer is None
    refused(signed, "no signature", public_key=dd.signing.public_key(KEY))
    with pytest.raises(SignatureError, match="no signature"):
        dd.load(signed.read_bytes(), public_key=dd.signing.public_key(KEY))
    with pytest.raises(SignatureError, match="no signature"):
        bridge.Engine().load(signed.read_bytes(), None, [dd.signing.public_key(KEY)])


def test_another_signer_is_refused(signed):
    refused(signed, "not trusted", public_key=dd.signing.public_key(OTHER))
    # A signature that names the trusted key and was made with another one.
    dd.signing.sign(signed, OTHER)
    forged = bytearray(beside(signed).read_bytes())
    forged[8:40] = dd.signing.public_key(KEY)
    beside(signed).write_bytes(forged)
    refused(signed, "does not belong", public_key=dd.signing.public_key(KEY))
    refused(signed, "does not belong")


def test_no_bit_of_the_header_can_change(signed):
    data = signed.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for at in [*range(3), *range(8, header, 97), header - 1]:
        bad = bytearray(data)
        bad[at] ^= 1
        signed.write_bytes(bad)
        for executor in EXECUTORS:
            with pytest.raises(dd.FileFormatError):
                dd.load(signed, executor)
        with pytest.raises(dd.FileFormatError):
            bridge.Engine().open(signed)


def test_an_edited_program_with_right_digests_is_refused(signed):
    file = File(signed.read_bytes())
    file.program["dims"]["b"]["max"] = 65
    signed.write_bytes(file.bytes())
    refused(signed, "does not belong")
    beside(signed).unlink()
    assert dd.load(signed).dims["b"] == (1, 65)  # nothing else was wrong with it


def test_a_changed_tensor_is_found_by_the_hash_that_the_header_holds(signed):
    data = bytearray(signed.read_bytes())
    data[-1] ^= 1
    signed.write_bytes(data)

    for executor in EXECUTORS:
        with pytest.raises(dd.FileFormatError, match="damaged"):
            dd.load(signed, executor)(X)


def test_a_signature_of_another_file_is_refused(signed, tmp_path):
    other = tmp_path / "train.dala"
    other.write_bytes(programs.train())
    dd.signing.sign(other, KEY)
    beside(signed).write_bytes(beside(other).read_bytes())
    refused(signed, "does not belong", public_key=dd.signing.public_key(KEY))


def test_nothing_is_parsed_before_the_signature_is_checked(signed):
    data = signed.read_bytes()
    length = int.from_bytes(data[:8], "little")
    signed.write_bytes(data[:8] + b"[" * length + data[8 + length :])
    refused(signed, "does not belong")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_signature_that_cannot_be_read_is_not_taken_for_none(signed, executor):
    def opens():
        dd.load(signed, executor)

    def opens_in_the_runtime():
        bridge.Engine().open(signed)

    sig = beside(signed)
    sig.unlink()
    makers = {
        "folder": sig.mkdir,
        "pipe": lambda: os.mkfifo(sig),
        "link": lambda: sig.symlink_to("nowhere"),
        "circle": lambda: sig.symlink_to(sig.name),
    }
    for make in makers.values():
        make()
        for call in (opens, opens_in_the_runtime):
            with pytest.raises(dd.FileError):
                call()
        sig.rmdir() if sig.is_dir() else sig.unlink()
    opens()


def test_a_name_with_no_room_for_the_ending_is_not_signed(tmp_path):
    path = tmp_path / ("x" * 250 + ".dala")
    path.write_bytes(programs.mlp())
    assert dd.load(path).signer is None
    bridge.Engine().open(path)


@st.composite
def mutants(draw):
    """A right signature, changed in some way."""
    good = _GOOD[1]
    kind = draw(st.sampled_from(("flip", "cut", "longer", "noise", "splice", "zeros", "text")))
    if kind == "flip":
        at = draw(st.integers(0, len(good) - 1))
        return good[:at] + bytes([good[at] ^ draw(st.integers(1, 255))]) + good[at + 1 :]
    if kind == "cut":
        return good[: draw(st.integers(0, len(good) - 1))]
    if kind == "longer":
        return good + draw(st.binary(min_size=1, max_size=64))
    if kind == "noise":
        return draw(st.binary(max_size=3 * len(good)))
    if kind == "splice":
        a, b = sorted((draw(st.integers(0, len(good))), draw(st.integers(0, len(good)))))
        return good[:a] + draw(st.binary(min_size=b - a, max_size=b - a)) + good[b:]
    if kind == "zeros":
        return good[:8] + bytes(96)
    return json.dumps({"key": good[8:40].hex(), "signature": good[40:].hex()}).encode()


_GOOD = (programs.mlp(), native.sign(programs.mlp(), KEY))


@given(mutants(), st.booleans())
def test_no_mutant_of_a_signature_is_taken(signature, trusted):
    data, good = _GOOD
    keys = [dd.signing.public_key(KEY)] if trusted else []
    if signature == good:
        return
    with pytest.raises(SignatureError):
        native.verify_signature(data, signature, keys)
    with pytest.raises(SignatureError):
        dd.load(data, "reference", signature=signature)


@given(st.integers(0, 2**252 - 1), st.integers(0, 3))
def test_scalars_beyond_the_order_and_points_of_small_order_are_refused(s, small):
    # Malleability: s + L fits wherever s does, were it let through.
    order = 2**252 + 27742317777372353535851937790883648493
    data, good = _GOOD
    moved = int.from_bytes(good[72:], "little") + order
    for bad in (good[:72] + moved.to_bytes(32, "little"), good[:72] + s.to_bytes(32, "little")):
        with pytest.raises(SignatureError):
            native.verify_signature(data, bad)
    points = [(1).to_bytes(32, "little"), bytes(32), bytes(31) + b"\x80", (2**255 - 20).to_bytes(32, "little")]
    with pytest.raises(SignatureError):
        native.verify_signature(data, good[:8] + points[small] + points[small] + bytes(32))


def test_wrong_keys_and_arguments_are_told(signed):
    for bad in ("", "zz" * 32, "ab" * 31, b"", b"k" * 33, "ab " * 32):
        with pytest.raises(dd.ArgumentError, match="no key"):
            dd.load(signed, public_key=bad)
        with pytest.raises(dd.ArgumentError, match="no key"):
            dd.signing.sign(signed, bad)
    for odd in (5, 1.5, [None]):
        with pytest.raises((dd.ArgumentTypeError, TypeError)):
            dd.load(signed, public_key=odd)
    with pytest.raises(dd.ArgumentError, match="lists no key"):
        dd.load(signed, public_key=[])
    with pytest.raises(dd.ArgumentError, match="goes with bytes"):
        dd.load(signed, signature=beside(signed).read_bytes())
    # An empty list must not mean "everybody" in C either.
    engine = bridge.Engine()
    out, err = engine.ffi.new("dala_program **"), engine.ffi.new("dala_error **")
    status = engine.lib.dala_program_open_trusted(engine.handle, str(signed).encode(), b"", 0, out, err)
    with pytest.raises(dd.ArgumentError, match="no key is trusted"):
        engine.check(status, err)


def test_a_private_key_is_not_shown(signed):
    secret = "ab" * 31 + "ax"
    with pytest.raises(dd.ArgumentError) as told:
        dd.signing.sign(signed, secret)
    assert secret[:10] not in str(told.value.to_dict())


def test_only_valid_files_are_signed(tmp_path):
    path = tmp_path / "bad.dala"
    data = bytearray(programs.mlp())
    for at in (-1, 20):
        bad = bytearray(data)
        bad[at] ^= 1
        path.write_bytes(bad)
        with pytest.raises(dd.FileFormatError):
            dd.signing.sign(path, KEY)
        assert not beside(path).exists()


def test_without_the_library_signed_files_are_refused_and_others_read(signed, monkeypatch):
    def absent():
        raise dd.EngineError("the native runtime is not built")

    monkeypatch.setattr(bridge._library, "load", absent)
    with pytest.raises(dd.EngineError, match="needs the native library"):
        dd.load(signed, "reference")
    with pytest.raises(SignatureError, match="no signature"):
        dd.load(signed.read_bytes(), "reference", public_key=b"p" * 32)
    beside(signed).unlink()
    assert dd.load(signed, "reference")(X).shape == (2, 3)


def test_new_keys_differ():
    keys = {dd.signing.generate_key() for _ in range(20)}
    assert len(keys) == 20
    assert all(len(k) == 32 for k in keys)


def dala(folder, *words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "dala_defn", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_makes_keys_signs_and_verifies(signed):
    folder = signed.parent
    beside(signed).unlink()
    assert "not signed" in dala(folder, "verify", "mlp.dala").stdout
    made = dala(folder, "keygen", "private")
    assert made.returncode == 0
    public = made.stdout.split()[-1]
    assert (folder / "private").stat().st_mode & 0o777 == 0o600
    assert (folder / "private").read_text().strip() not in made.stdout
    assert dala(folder, "keygen", "private").returncode == 1  # never over a key that is there
    assert public in dala(folder, "sign", "mlp.dala", "--key", "private").stdout
    (folder / "public").write_text(public + "\n")
    for key in (public, "public"):
        assert f"signed by {public}" in dala(folder, "verify", "mlp.dala", "--public-key", key).stdout
    assert json.loads(dala(folder, "info", "--json", "mlp.dala").stdout)["signer"] == public
    wrong = dala(folder, "verify", "mlp.dala", "--public-key", "00" * 32)
    assert wrong.returncode == 1
    assert "not trusted" in wrong.stderr
    assert dala(folder, "verify", "mlp.dala", "--public-key", "mlp.dala").returncode == 2
    beside(signed).write_bytes(b"x")
    for words in (("info",), ("show",), ("verify",), ("run",)):
        done = dala(folder, *words, "mlp.dala")
        assert done.returncode == 1, done
        assert "signature" in done.stderr


# Ed25519 as RFC 8032 writes it down, slowly, for one signature.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493


def _add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def _times(n, point):
    out = (0, 1)
    while n:
        if n & 1:
            out = _add(out, point)
        point = _add(point, point)
        n >>= 1
    return out


BASE_Y = 4 * pow(5, -1, P) % P


def _base():
    square = (BASE_Y * BASE_Y - 1) * pow(D * BASE_Y * BASE_Y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x if x % 2 == 0 else P - x), BASE_Y


def _packed(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def _secret(private):
    import hashlib

    h = bytearray(hashlib.sha512(private).digest())
    h[0] &= 248
    h[31] = h[31] & 127 | 64
    return int.from_bytes(h[:32], "little"), bytes(h[32:])


def plain_public(private):
    return _packed(_times(_secret(private)[0], _base()))


def plain_sign(private, message):
    import hashlib

    def number(*parts):
        return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER

    a, prefix = _secret(private)
    r = number(prefix, message)
    point = _packed(_times(r, _base()))
    s = (r + number(point, plain_public(private), message) * a) % ORDER
    return point + s.to_bytes(32, "little")
