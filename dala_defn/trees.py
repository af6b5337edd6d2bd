"""Pytrees: nested dicts, lists, tuples, namedtuples, dataclasses and registered classes over leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from dala_defn.errors import ArgumentError, ArgumentTypeError

Path = tuple[Any, ...]

registered: dict[type, tuple[Callable[[Any], tuple[list[Any], Any]], Callable[[Any, list[Any]], Any]]] = {}


class Tree:
    """The shape of a pytree without its leaves; hashable, compared by value."""

    __slots__ = ("_hash", "children", "kind", "meta", "size")

    def __init__(self, kind: Any, meta: Any, children: tuple[Tree, ...]) -> None:
        self.kind = kind
        self.meta = meta
        self.children = children
        self.size: int = 1 if kind is LEAF else sum(c.size for c in children)
        self._hash = hash((kind, meta, children))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Tree)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.meta == other.meta
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(unflatten(self, [_Star()] * self.size))


class _Star:
    def __repr__(self) -> str:
        return "*"


LEAF = "leaf"
_LEAF = Tree(LEAF, None, ())
_NONE = Tree(None, None, ())


def register(
    cls: type, flatten: Callable[[Any], tuple[list[Any], Any]], unflatten: Callable[[Any, list[Any]], Any]
) -> None:
    """Makes instances of ``cls`` inner nodes, by ``flatten(x) -> (children, hashable)`` and its inverse.

    Raises:
        ArgumentError: when the class is already registered.
    """
    if cls in registered:
        raise ArgumentError(f"{cls.__name__} is already registered as a pytree node")
    registered[cls] = (flatten, unflatten)


def _children(tree: Any) -> tuple[Any, Any, list[Any], list[Any]] | None:
    """Kind, meta, children and their path entries of an inner node; ``None`` for a leaf."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind, len(tree), list(tree), list(range(len(tree)))
    if kind is dict:
        try:
            names = sorted(tree)
        except TypeError:
            names = sorted(tree, key=lambda k: (type(k).__name__, str(k)))
        return dict, tuple(names), [tree[k] for k in names], names
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, tree._fields, list(tree), list(tree._fields)
    if kind in registered:
        children, meta = registered[kind][0](tree)
        return kind, meta, children, list(range(len(children)))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [f.name for f in dataclasses.fields(tree)]
        return kind, tuple(names), [getattr(tree, n) for n in names], names
    return None


def flatten(tree: Any) -> tuple[list[Any], Tree]:
    """The leaves in order (dicts by sorted key; ``None`` has none) and the tree they came from."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Tree:
    if tree is None:
        return _NONE
    node = _children(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    kind, meta, children, _ = node
    return Tree(kind, meta, tuple([_flatten(c, leaves) for c in children]))


def flatten_with_paths(tree: Any) -> list[tuple[Path, Any]]:
    """The leaves in order, each with the keys, indices or field names that lead to it."""
    out: list[tuple[Path, Any]] = []

    def walk(at: Any, path: Path) -> None:
        if at is None:
            return
        node = _children(at)
        if node is None:
            out.append((path, at))
            return
        for child, entry in zip(node[2], node[3], strict=True):
            walk(child, (*path, entry))

    walk(tree, ())
    return out


def flatten_like(tree: Tree, given: Any) -> list[Any]:
    """The leaves of ``given`` where ``tree`` has its own; None may stand in the place of any part.

    Raises:
        ArgumentTypeError: when the structures differ.
    """
    if tree.kind is LEAF:
        return [given]
    if given is None:
        return [None] * tree.size
    node = _children(given)
    if node is None or node[0] is not tree.kind or node[1] != tree.meta:
        raise ArgumentTypeError(f"{flatten(given)[1]!r} does not have the structure {tree!r}")
    return [x for child, part in zip(tree.children, node[2], strict=True) for x in flatten_like(child, part)]


def spread(prefix: Any, tree: Tree) -> list[Any]:
    """An entry for each leaf of a tree: one that stands for a part of the tree stands for each of its leaves.

    Raises:
        ArgumentTypeError: when the prefix has parts that the tree does not.
    """
    node = _children(prefix) if prefix is not None else None
    if node is None:
        return [prefix] * tree.size
    if node[0] is not tree.kind or node[1] != tree.meta:
        raise ArgumentTypeError(f"{prefix!r} does not fit the structure {tree!r}")
    return [x for part, child in zip(node[2], tree.children, strict=True) for x in spread(part, child)]


def show_path(path: Path) -> str:
    """A path as text: ``dense/kernel``."""
    return "/".join(map(str, path))


def unflatten(tree: Tree, leaves: Iterable[Any]) -> Any:
    """The pytree with these leaves.

    Raises:
        ArgumentError: when the number of leaves is not the tree's.
    """
    items = list(leaves)
    if len(items) != tree.size:
        raise ArgumentError(f"{len(items)} leaves for a tree that has {tree.size}")
    return _unflatten(tree, iter(items))


def _unflatten(tree: Tree, leaves: Any) -> Any:
    kind = tree.kind
    if kind is LEAF:
        return next(leaves)
    if kind is None:
        return None
    children = [_unflatten(c, leaves) for c in tree.children]
    if kind is tuple:
        return tuple(children)
    if kind is list:
        return children
    if kind is dict:
        return dict(zip(tree.meta, children, strict=True))
    if kind in registered:
        return registered[kind][1](tree.meta, children)
    if issubclass(kind, tuple):
        return kind(*children)
    out = object.__new__(kind)
    for name, child in zip(tree.meta, children, strict=True):
        object.__setattr__(out, name, child)
    return out


def map_tree(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """``f`` applied to the leaves; further trees must have the same structure.

    Raises:
        ArgumentTypeError: when they have not.
    """
    leaves, shape = flatten(tree)
    others = []
    for other in rest:
        more, other_shape = flatten(other)
        if other_shape != shape:
            raise ArgumentTypeError(f"trees differ in structure: {shape} and {other_shape}")
        others.append(more)
    return unflatten(shape, [f(*xs) for xs in zip(leaves, *others, strict=True)])
