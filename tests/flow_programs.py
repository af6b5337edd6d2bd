"""Programs in plain Python whose control flow depends on their arguments, with inputs that take all paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dala_defn as dd


@dataclass(frozen=True)
class Program:
    f: Callable[..., Any]
    inputs: list[tuple[Any, ...]]
    smooth: bool  # whether the derivative by the first argument exists at the inputs


PROGRAMS: dict[str, Program] = {}


def program(*inputs: Any, smooth: bool = True) -> Callable[[Any], Any]:
    """Registers a function; each input is a tuple of arguments, or the only argument."""

    def wrap(f: Any) -> Any:
        assert f.__name__ not in PROGRAMS
        PROGRAMS[f.__name__] = Program(f, [x if isinstance(x, tuple) else (x,) for x in inputs], smooth)
        return f

    return wrap


# if


@program(3.0, -3.0)
def if_else(x):
    if x > 0:
        y = x * 2
    else:
        y = -x
    return y + 1


@program(3.0, -3.0)
def if_without_else(x):
    y = x * x
    if x > 0:
        y = y * x
    return y


@program(7.0, 2.0, -0.5, -9.0)
def elif_chain(x):
    if x > 5:
        y = x * x
    elif x > 1:
        y = x * 3
    elif x > -1:
        y = x
    else:
        y = -x
    return y


@program((1.0, 2.0), (1.0, -2.0), (-1.0, 2.0), (-1.0, -2.0))
def nested_ifs(x, y):
    if x > 0:
        if y > 0:
            z = x * y
        else:
            z = x - y
    else:
        z = y * y
        if y > 0:
            z = z + x
    return z


@program(2.0, -2.0)
def early_return(x):
    if x > 0:
        return x * x
    return -x


@program(12.0, 7.0, 1.0)
def several_early_returns(x):
    if x > 10:
        return x - 10
    y = x * 2
    if y > 10:
        return y * y
    z = y + 1
    return z * z


@program(2.0, -2.0)
def return_in_both(x):
    if x > 0:
        return x * 3
    else:
        return x * 5


@program((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -3.0))
def return_in_a_nested_branch(x, y):
    if x > 0:
        if y > 0:
            return x + y
        x = x * 10
    y = y * 2
    return x - y


@program(3.0, 1.0, -1.0, -5.0)
def return_in_some_branches_of_a_chain(x):
    if x > 2:
        return x
    elif x > 0:
        x = x * 100
    elif x > -2:
        return x * x
    else:
        x = x - 1
    return x + 0.5


@program(2.0, -2.0)
def return_of_a_number(x):
    if x < 0:
        return 0
    return x * 2


@program(2.0, -2.0)
def return_of_several(x):
    if x > 0:
        return x, {"a": x * 2, "b": 1}
    return -x, {"a": x, "b": 2}


@program(np.array([1.0, 2.0, 3.0]), np.array([-5.0, 0.0, 1.0]))
def condition_of_a_reduction(x):
    if x.sum() > 0:
        x = x / x.sum()
    else:
        x = x * 0 + 1
    return (x * x).sum()


@program(2.0, -2.0)
def swap(x):
    a, b = x, x * 3
    if x > 0:
        a, b = b, a
    return a - 2 * b


@program(2.0, -2.0)
def structures(x):
    if x > 0:
        state = {"w": x, "n": [x, x * 2]}
    else:
        state = {"w": -x, "n": [x * 3, x]}
    return state["w"] + state["n"][0] * state["n"][1]


@program(2.0, -2.0)
def numbers_in_branches(x):
    if x > 0:
        k, scale, on = 1, 2.5, True
    else:
        k, scale, on = 2, 0.5, False
    return x * scale + k + (3 if on else 4)


@program(2.0, -2.0)
def same_plain_value_in_both(x):
    if x > 0:
        mode, n = "double", 2
        y = x
    else:
        mode, n = "double", 2
        y = -x
    if mode == "double":
        y = y * 2
    for _ in range(n):
        y = y + 1
    return y


@program(2.0, -2.0)
def temporaries_of_other_types(x):
    if x > 0:
        t = dd.stack([x, x])
        y = t.sum()
    else:
        t = x * 2
        y = t * t
    return y


@program(2.0, -2.0)
def assigned_in_one_branch_and_used_there(x):
    y = x
    if x > 0:
        t = x * 3
        y = t * t
    return y


@program(2.0, -2.0)
def augmented(x):
    total = 1.0
    if x > 0:
        total += x
    else:
        total -= x * x
    total *= 2
    return total


@program(2.0, -2.0)
def nothing_in_a_branch(x):
    y = x * 4
    if x > 0:
        pass
    else:
        y = y + 1
    return y


@program(2.0, -2.0)
def a_concrete_if_inside(x):
    n = 3
    if x > 0:
        y = x**n if n > 2 else x
    else:
        if n == 3:
            y = x * n
        else:
            y = x.no_such_attribute
    return y


@program((2, 1.0), (7, 1.0), (-4, 1.0), smooth=False)
def integer_conditions(n, x):
    if n % 2:
        x = x + 1
    if n:
        x = x * n
    if n > 3:
        n = n * 2
    return x + n


@program(2.0, -2.0)
def closures_inside(x):
    scale = 2.0

    def apply(v):
        return v * scale

    if x > 0:
        scale = 3.0
        y = apply(x)
    else:
        y = apply(x) + 1
    return y + apply(1.0)


@program(2.0, -2.0)
def a_nested_function_with_an_if(x):
    def bend(v):
        if v > 1:
            return v * v
        return v

    return bend(x) + bend(x + 1)


@program(2.0, -2.0)
def nonlocal_variables(x):
    count = 0

    def bump(v):
        nonlocal count
        if v > 0:
            count = count + 1
        else:
            count = count + 10
        return v

    y = bump(x) + bump(-x) * 2
    return y * 3 + count


@program(2.0, -2.0)
def lambdas(x):
    bend = lambda v: v * 2 if v > 0 else v * 3  # noqa: E731
    return bend(x) + bend(-x)


@program(2.0, -2.0, 0.25)
def walrus(x):
    if (y := x * 2) > 1:
        z = y + (w := x)
    else:
        z = y - (w := -x)
    return z * w


@program((1, 5.0), (3, 5.0), (9, 5.0), smooth=False)
def match_of_a_plain_value_inside(n, x):
    kind = "square"
    if n > 2:
        match kind:
            case "square":
                x = x * x
            case _:
                x = x + 1
    return x * n


@program((2.0, 3.0), (2.0, -3.0), (-2.0, 3.0), (-2.0, -3.0))
def assigned_unless_returned(x, y):
    if x > 0:
        if y > 0:
            return x * y
        t = x
    else:
        t = y
    return t * t


@program((2.1, 3.0), (2.1, -3.0), (-2.1, 3.0), (-2.1, -3.0))
def dead_where_it_returns(x, y):
    t = x
    while x < 3:
        if y > 0:
            u = t * 2
            if x > 0:
                t = u
            else:
                x = u + 5
            return x + y
        x = x + t * t
        t = t + 1
    return x * t


# expressions


@program(2.0, -2.0)
def ternary(x):
    return x * 2 if x > 0 else x * 3


@program(5.0, 1.0, -2.0)
def ternary_chain(x):
    return x * 2 if x > 3 else x * 3 if x > 0 else -x


@program((1.0, 2.0), (1.0, -2.0), (-1.0, 2.0), (-1.0, -2.0))
def and_or_not(x, y):
    z = x
    if x > 0 and y > 0:
        z = z + 1
    if x > 0 or y > 0:
        z = z * 2
    if not x > 0 and not (y > 0 or x > 5):
        z = z - 10
    return z


@program(0.5, -1.0, 3.0, 8.0)
def chained_comparison(x):
    if 0 < x < 1:
        return x * 10
    if 2 <= x <= 4 < 5:
        return x * 100
    return x


@program((True, False, 2.0), (True, True, 2.0), (False, False, 2.0), smooth=False)
def booleans_as_values(a, b, x):
    both = a and b
    either = a or b
    neither = not (a or b)
    return x * both + either * 10 + neither * 100


@program((2.0, 3.0), (0.0, 3.0), (-1.0, 3.0), smooth=False)
def numbers_as_values(x, y):
    return (x and y) + (x or y) * 10


@program((2.0, None), (-2.0, None))
def short_circuit(x, missing):
    if missing is not None and missing > 0:
        return x
    if missing is None or missing > 0:
        x = x * 2
    return x + 1


@program(2.0, -2.0)
def a_plain_condition_with_a_traced_one(x):
    training = True
    if training and x > 0:
        return x * 2
    if not training or x > -1:
        return x * 3
    return x * 4


@program(np.array([1.0, -2.0, 3.0]), np.array([-1.0, 2.0, -3.0]))
def comprehension_of_ternaries(x):
    rows = [v * 2 if v > 0 else v * v for v in x]
    return rows[0] + rows[1] * rows[2]


# functions of the user


def _relu_or_double(v, limit=1.0, *, slope=0.5):
    if v > limit:
        return v * 2
    return v * slope


def _recursive(x, depth):
    if depth == 0:
        return x
    if x > 1:
        return _recursive(x / 2, depth - 1)
    return _recursive(x + 1, depth - 1) * 2


def twice(f):
    def wrapper(*args, **kwargs):
        return f(f(*args, **kwargs), **kwargs)

    return wrapper


@twice
def _decorated(x, step=1.0):
    if x > 0:
        return x - step
    return x + step * 2


@dataclass
class Bender:
    limit: float

    def bend(self, x):
        if x > self.limit:
            return self.cut(x)
        return x

    def cut(self, x):
        return self.limit + (x - self.limit) * 0.1 if x < 100 else x * 0

    def __call__(self, x):
        while x > self.limit:
            x = x - 1
        return x


class Steeper(Bender):
    __factor = 3.0

    def bend(self, x):
        if x < 0:
            return super().bend(x) * self.__factor
        return super().bend(x)


BENDER = Bender(2.0)


@program(0.5, 3.0, -1.0)
def a_helper(x):
    return _relu_or_double(x) + _relu_or_double(x, 2.0, slope=0.1)


@program(0.5, 3.0, 9.0)
def recursion_with_a_plain_end(x):
    return _recursive(x, 4)


@program(0.5, 3.0, -2.0)
def a_decorated_helper(x):
    return _decorated(x, step=2.0)


@program(0.5, 3.0, 200.0)
def methods(x):
    return BENDER.bend(x)


@program(0.5, 3.0, -2.0)
def inherited_methods(x):
    return Steeper(1.0).bend(x)


@program(0.5, 3.5)
def callable_objects(x):
    return BENDER(x)


@program(np.array([0.5, 3.0]), np.array([5.0, -3.0]))
def functions_given_to_transformations(xs):
    slopes = dd.vmap(dd.grad(_relu_or_double))(xs)
    last, all_ = dd.scan(lambda c, x: (c + x if x > 0 else c - x, c), 0.0, xs)
    return (slopes * xs).sum() + last + all_.sum()


@program(0.6, 3.0)
def functions_given_to_python(x):
    total = x
    for y in map(_relu_or_double, [x, x * 2, x + 1]):
        total = total + y
    return max(math.pi, 2.0) * total


@program(0.5, -3.0)
def assertions(x):
    n = 3
    assert n == 3, "three"
    assert x < 100, f"{x} is too large for {n}"
    assert x * x >= 0
    return x * n


@program(0.5, -3.0)
def inside_with_and_try(x):
    with dd.name_scope("inside"):
        if x > 0:
            y = x * 2
        else:
            y = x
    try:
        y = y + 1
    finally:
        if y > 0:
            y = y * 3
    return y


# Here, because pytest changes the assert statements of test files.


def checked_in_a_branch(x):
    n = 3
    if x > 0:
        assert x < 10, f"too large for {n}: {x}"
        return x
    return -x


def checked_without_a_message(x):
    assert x < 1
    return x
