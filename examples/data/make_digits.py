"""Writes ``digits.npz`` beside this file from the copy of the data that scikit-learn ships.

Run it in an environment of its own: ``pip install scikit-learn && python examples/data/make_digits.py``.
scikit-learn is needed to make the file only, never to read it.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

CLASS_COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def arrays() -> dict[str, np.ndarray]:
    """The images (1797, 8, 8) with values 0..16 and their labels 0..9, checked, as uint8."""
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    if not (np.array_equal(images, digits.images) and np.array_equal(labels, digits.target)):
        raise SystemExit("the data does not fit uint8")
    if images.shape != (1797, 8, 8) or (images.min(), images.max()) != (0, 16):
        raise SystemExit(f"unexpected images: {images.shape}, {images.min()}..{images.max()}")
    if np.bincount(labels).tolist() != CLASS_COUNTS:
        raise SystemExit(f"unexpected class counts: {np.bincount(labels).tolist()}")
    return {"images": images, "labels": labels}


def write_npz(path: Path, members: dict[str, np.ndarray]) -> None:
    """An ``.npz`` whose bytes depend on the arrays only: np.savez gives no say over dates and order."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(members):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(members[name]), version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, buffer.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


if __name__ == "__main__":
    target = Path(__file__).with_name("digits.npz")
    write_npz(target, arrays())
    print(f"{target.name}: {target.stat().st_size} bytes")
