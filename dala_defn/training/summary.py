"""The table that ``model.summary`` prints."""

from __future__ import annotations

from typing import Any

from dala_defn import trees


def summarise(model: Any) -> str:
    """Layers with output shapes and numbers of parameters, then the totals."""
    if not model._connected:
        return f"{type(model).__name__}: not built, as the shape of the input is not known"
    rows = [("Layer (type)", "Output shape", "Params")]
    for s, name in zip(model.inputs, model.input_names, strict=True):
        rows.append((f"{name} (Input)", _shape(s), "0"))
    seen: set[int] = set()
    for c in model.calls:
        own = c.layer.count_params() if id(c.layer) not in seen else 0
        seen.add(id(c.layer))
        shapes = ", ".join(_shape(s) for s in trees.flatten(c.outputs)[0])
        rows.append((f"{model.names[id(c.layer)]} ({type(c.layer).__name__})", shapes, f"{own:,}"))
    left, middle, right = (max(len(r[i]) for r in rows) for i in range(3))
    lines = [f"{a:<{left}}  {b:<{middle}}  {c:>{right}}" for a, b, c in rows]
    rule = "-" * (left + middle + right + 4)
    total, trainable = _counts(model)
    return "\n".join(
        [
            f"Model: {model.name or type(model).__name__.lower()}",
            rule,
            lines[0],
            rule,
            *lines[1:],
            rule,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
        ]
    )


def _shape(s: Any) -> str:
    return "(" + ", ".join(map(str, s.shape)) + ("," if len(s.shape) == 1 else "") + ")"


def _counts(model: Any) -> tuple[int, int]:
    total = trainable = 0
    seen: set[int] = set()
    for _, leaf, trained in model.leaves():
        if id(leaf) in seen:
            continue
        seen.add(id(leaf))
        for i, group in enumerate(leaf._types):
            for t in group:
                count = 1
                for d in t.shape:
                    count *= int(d)
                total += count
                trainable += count if trained and i == 0 else 0
    return total, trainable
