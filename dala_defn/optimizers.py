"""Optimizers: pure updates of a tree of parameters.

``init(params) -> state`` and ``update(params, grads, state) -> (params, state)``, where ``state`` is a dict with the
number of finished steps (``"step"``), the learning rate (unless it is a function of the step), and a tree like
``params`` for every running quantity. Use them in any ``@defn``; ``model.fit`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dala_defn import dtypes, trees
from dala_defn import functions as F
from dala_defn.errors import ArgumentError, DTypeError
from dala_defn.functions.base import dtype_of
from dala_defn.trace import prepared

Rate = float | Callable[[Any], Any]


def clip_by_global_norm(grads: Any, max_norm: float) -> Any:
    """Gradients scaled together so that the norm of all their elements is at most ``max_norm``.

    Where that norm is not finite, everything becomes NaN: an overflow stays visible.

    Returns:
        A tree like ``grads``.

    Example:
        >>> dd.optimizers.clip_by_global_norm({"a": dd.array([3.0, 4.0])}, 1.0)["a"]
        array([0.6, 0.8], dtype=float32)
    """
    leaves, tree = trees.flatten(grads)
    if not leaves:
        return grads
    peak = F.max(F.stack([F.max(F.absolute(g)) if g.shape else F.absolute(g) for g in leaves]))
    unit = F.where(peak > 0, peak, 1.0)
    squares = [F.sum(F.square(g / unit)) for g in leaves]
    total = squares[0]
    for s in squares[1:]:
        total = total + s
    norm = peak * F.sqrt(total)
    scale = F.where(norm > max_norm, max_norm / F.where(norm > 0, norm, 1.0), 1.0)
    scale = F.where(F.isfinite(peak), scale, math.nan)
    return trees.unflatten(tree, [g * F.astype(scale, dtype_of(g)) for g in leaves])


class Optimizer:
    """The base: a learning rate, the count of steps, and clipping. A subclass gives ``slots`` and ``apply``.

    Args:
        learning_rate: a number, or a function from the number of finished steps to one, which becomes part of the
            program.
        global_clipnorm: when given, gradients are clipped by their global norm first.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, learning_rate: Rate, global_clipnorm: float | None = None) -> None:
        if not callable(learning_rate) and not learning_rate >= 0:
            raise ArgumentError(f"a learning rate of {learning_rate!r}", rule="a number of at least 0, or a function")
        self.learning_rate = learning_rate
        self.global_clipnorm = global_clipnorm

    def relied_on(self) -> tuple[str, ...]:
        """The attributes that a train step is made of: when one changes, it is traced again.

        A learning rate that is a number is part of the state instead.
        """
        return tuple([n for n, x in vars(self).items() if n != "learning_rate" or callable(x)])

    def init(self, params: Any) -> dict[str, Any]:
        """The state before the first step.

        Raises:
            DTypeError: for complex parameters.

        Example:
            >>> dd.optimizers.SGD(0.1).init({"w": dd.array([1.0])})["step"]
            array(0, dtype=int32)
        """
        for p in trees.flatten(params)[0]:
            if dtype_of(p).kind == "c":
                raise DTypeError(
                    f"an optimizer takes real parameters, not {dtype_of(p)}",
                    hint="dd.complex(a, b) of two real parameters, in the function that is trained",
                )
        state: dict[str, Any] = {"step": F.zeros((), dtypes.int32)}
        if not callable(self.learning_rate):
            state["learning_rate"] = F.full((), self.learning_rate, dtypes.float32)
        for slot in self.slots:
            state[slot] = trees.map_tree(F.zeros_like, params)
        return state

    def update(self, params: Any, grads: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Parameters and state after one step.

        Raises:
            ArgumentError: when the state was made for other options.
            ArgumentTypeError: when the trees differ in structure.

        Example:
            >>> sgd = dd.optimizers.SGD(0.1)
            >>> sgd.update(dd.array(1.0), dd.array(0.5), sgd.init(dd.array(1.0)))[0]
            array(0.95, dtype=float32)
        """
        missing = [s for s in self.slots if s not in state]
        if missing:
            raise ArgumentError(
                f"{self!r} needs {' and '.join(missing)}, which its state does not have",
                rule="the options that say what the state holds are set before init or compile",
                hint="model.compile again, or optimizer.init(params)",
            )
        step = state["step"]
        rate = prepared(self.learning_rate)(step) if callable(self.learning_rate) else state["learning_rate"]
        if self.global_clipnorm is not None:
            grads = clip_by_global_norm(grads, self.global_clipnorm)
        count = F.astype(step + 1, dtypes.float32)
        leaves, tree = trees.flatten(params)
        given = [trees.flatten(grads)[0], *(trees.flatten(state[s])[0] for s in self.slots)]
        trees.map_tree(lambda *_: None, params, grads, *(state[s] for s in self.slots))
        rows = [self.apply(p, g, rate, count, *rest) for p, g, *rest in zip(leaves, *given, strict=True)]
        news = [trees.unflatten(tree, column) for column in zip(*rows, strict=True)] if rows else [params]
        out = {**state, "step": step + 1}
        out.update(zip(self.slots, news[1:], strict=False))
        return news[0], out

    def apply(self, p: Any, g: Any, rate: Any, count: Any, *slots: Any) -> tuple[Any, ...]:
        """One parameter's new value and slots. ``count`` is the number of this step, from 1, as float32."""
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate})"


def _decay_of(weight_decay: float | None) -> float:
    if weight_decay is not None and not weight_decay >= 0:
        raise ArgumentError(f"a weight decay of {weight_decay!r}", rule="a number of at least 0")
    return weight_decay or 0.0


class SGD(Optimizer):
    """Gradient descent, with momentum in Keras's form.

    ``g = grad + weight_decay * w`` (decay is coupled: it goes through the momentum); ``v = momentum * v - rate * g``;
    ``w = w + v``, or with ``nesterov`` ``w = w + momentum * v - rate * g`` (Sutskever et al. 2013).

    Example:
        >>> dd.optimizers.SGD(learning_rate=0.1, momentum=0.9)
        SGD(learning_rate=0.1)
    """

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float | None = None,
        global_clipnorm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, global_clipnorm)
        if not 0 <= momentum <= 1:
            raise ArgumentError(f"a momentum of {momentum!r}", rule="a number from 0 to 1")
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = _decay_of(weight_decay)

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        """A velocity, where there is a momentum."""
        return ("velocity",) if self.momentum else ()

    def apply(self, p: Any, g: Any, rate: Any, count: Any, *slots: Any) -> tuple[Any, ...]:
        """The formula of the class."""
        rate = F.astype(rate, dtype_of(p))
        if self.weight_decay:
            g = g + self.weight_decay * p
        if not slots:
            return (p - rate * g,)
        v = self.momentum * slots[0] - rate * g
        return (p + (self.momentum * v - rate * g if self.nesterov else v), v)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) in the form of the end of their section 2, which is also Keras's.

    ``m = b1 m + (1 - b1) g``; ``v = b2 v + (1 - b2) g**2``;
    ``w = w - rate * sqrt(1 - b2**t) / (1 - b1**t) * m / (sqrt(v) + epsilon)``. Epsilon stands beside the *uncorrected*
    root (the paper's "epsilon hat"), unlike in PyTorch, and is 1e-7 by default.

    Example:
        >>> dd.optimizers.Adam(1e-3)
        Adam(learning_rate=0.001)
    """

    slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        global_clipnorm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, global_clipnorm)
        for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{name} = {beta!r}", rule="a number of at least 0 and below 1")
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.weight_decay = 0.0

    def apply(self, p: Any, g: Any, rate: Any, count: Any, *slots: Any) -> tuple[Any, ...]:
        """The formula of the class."""
        m = self.beta_1 * slots[0] + (1 - self.beta_1) * g
        v = self.beta_2 * slots[1] + (1 - self.beta_2) * F.square(g)
        scale = rate * F.sqrt(_correction(self.beta_2, count)) / _correction(self.beta_1, count)
        if self.weight_decay:
            p = p - F.astype(rate * self.weight_decay, dtype_of(p)) * p
        return p - F.astype(scale, dtype_of(p)) * m / (F.sqrt(v) + self.epsilon), m, v


def _correction(beta: float, count: Any) -> Any:
    """``1 - beta**count`` without the cancellation that float32 would suffer for the first steps."""
    return -F.expm1(count * math.log(beta)) if beta else 1.0


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019): first ``w = w - rate * weight_decay * w``.

    Example:
        >>> dd.optimizers.AdamW(1e-3, weight_decay=0.004)
        AdamW(learning_rate=0.001)
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        global_clipnorm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, global_clipnorm)
        self.weight_decay = _decay_of(weight_decay)


_NAMED: dict[str, Callable[[], Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def get(optimizer: str | Optimizer) -> Optimizer:
    """An optimizer by its name in lower case, or itself.

    Raises:
        ArgumentError: for an unknown name.

    Example:
        >>> dd.optimizers.get("adam")
        Adam(learning_rate=0.001)
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    found = _NAMED.get(optimizer.lower()) if isinstance(optimizer, str) else None
    if found is None:
        raise ArgumentError(f"there is no optimizer {optimizer!r}", rule=f"one of {', '.join(_NAMED)}")
    return found()
