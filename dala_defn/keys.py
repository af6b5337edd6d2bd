"""Keys and signatures, as the native runtime makes and checks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dala_defn.bridge import filled

KEY_BYTES = 32
SIGNATURE_BYTES = 104


def new_private_key() -> bytes:
    """A private key from the randomness of the operating system."""
    return filled(KEY_BYTES, lambda ffi, lib, out, err: lib.dala_private_key_new(out, err))


def public_key(private_key: bytes) -> bytes:
    """The public key of a private one."""
    return filled(KEY_BYTES, lambda ffi, lib, out, err: lib.dala_public_key(private_key, out, err))


def sign(data: bytes | memoryview, private_key: bytes) -> bytes:
    """The content of a ``.sig`` file for a ``.dala`` file."""

    def call(ffi: Any, lib: Any, out: Any, err: Any) -> Any:
        held = ffi.from_buffer("uint8_t[]", data)
        return lib.dala_sign(held, len(data), private_key, out, err)

    return filled(SIGNATURE_BYTES, call)


def verify_signature(data: bytes | memoryview, signature: bytes, trusted: Sequence[bytes] = ()) -> bytes:
    """Who signed a ``.dala`` file, as its ``.sig`` says.

    Raises:
        SignatureError: when the signature is another file's, or not by one of the trusted keys, if there are any.
    """

    def call(ffi: Any, lib: Any, out: Any, err: Any) -> Any:
        held, keys = ffi.from_buffer("uint8_t[]", data), b"".join(trusted)
        return lib.dala_signature_verify(held, len(data), signature, len(signature), keys, len(trusted), out, err)

    return filled(KEY_BYTES, call)
