"""Signatures of ``.dala`` files: who made this file?

A signature lies beside the file, in ``FILE.sig`` (``docs/format.md``). Whoever has the private key can sign; the public
key, which may be known to everybody, tells who did. Keys are 32 bytes, or the same as 64 hex digits.

>>> key = dd.signing.generate_key()
>>> dd.signing.sign("model.dala", key)
>>> dd.load("model.dala", public_key=dd.signing.public_key(key))
"""

from __future__ import annotations

import os
import sys

from dala_defn import errors, keys, ops
from dala_defn.artifacts import Key, as_key, read_file, signature_path, write_file
from dala_defn.ir.codec import decode_program
from dala_defn.ir.container import Container


def generate_key() -> bytes:
    """A new private key, from the randomness of the operating system.

    Example:
        >>> len(dd.signing.generate_key())
        32
    """
    return keys.new_private_key()


def public_key(private_key: Key) -> bytes:
    """The public key that belongs to a private one.

    Raises:
        ArgumentError: for a key that is none.

    Example:
        >>> dd.signing.public_key("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").hex()
        'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a'
    """
    return keys.public_key(as_key(private_key))


def sign(path: str | os.PathLike[str], private_key: Key) -> None:
    """Signs a ``.dala`` file: writes ``FILE.sig`` beside it, in the place of one that is there.

    The file is checked first, as ``python -m dala_defn verify`` does.

    Raises:
        FileError: when the file cannot be read, or the signature not be written.
        FileFormatError: when it is no valid ``.dala`` file.
        ArgumentError: for a key that is none.

    Example:
        >>> dd.signing.sign("model.dala", key)
    """
    key = as_key(private_key)
    data = read_file(path)
    container = Container(data)
    for name in container.names():
        container.tensor(name)
    for entry in decode_program(container, ops.OPS).entries:
        ops.verify(entry.graph)
    write_file(signature_path(path), keys.sign(data, key))


errors.boundaries(sys.modules[__name__])
