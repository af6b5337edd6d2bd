"""Programs in plain Python with loops that depend on their arguments; see ``flow_programs``."""

from __future__ import annotations

import itertools

import numpy as np
from flow_programs import program

# while


@program(5.0, 100.0, 0.3)
def halve(x):
    while x > 1:
        x = x / 2
    return x


@program(5.0, 100.0, 0.3)
def count_halvings(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return x + n


@program(0, 1, 7, 10, smooth=False)
def factorial(n):
    out = 1
    while n > 1:
        out = out * n
        n = n - 1
    return out


@program((48, 18), (7, 13), (5, 0), smooth=False)
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@program(2.0, 30.0, 0.5)
def newton(a):
    x = a
    while abs(x * x - a) > 1e-6 * a:
        x = (x + a / x) / 2
    return x


@program(2.0, 30.0, 0.5)
def endless_with_break(a):
    x = a
    while True:
        x = (x + a / x) / 2
        if abs(x * x - a) < 1e-5 * a:
            break
    return x


@program(0.5, 3.0, 40.0)
def while_with_continue(x):
    total = 0.0
    n = 0
    while n < 6:
        n = n + 1
        x = x * 0.5
        if x > 4:
            continue
        total = total + x
    return total


@program(27, 1, 6, smooth=False)
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@program(3.0, 50.0, 1000.0)
def while_else(x):
    n = 0
    while x > 1:
        if n >= 5:
            break
        x = x / 2
        n = n + 1
    else:
        x = x + 100
    return x


@program(3.5, 50.0, 1e6)
def return_inside_while(x):
    n = 0
    while x > 1:
        x = x / 3
        n = n + 1
        if n == 4:
            return x * 7
    return x + n


@program(9.25, 2.5)
def nested_whiles(x):
    total = 0.0
    while x > 1:
        y = x
        while y > 1:
            y = y - 1
            total = total + y
        x = x / 2
    return total


@program((3, 2.0), (0, 2.0), (5, 2.0), smooth=False)
def peeled_loop(n, x):
    i = 0
    while i < 2 or i < n:
        x = x * 1.5
        i += 1
    return x


@program(5.3, 0.5)
def while_with_walrus(x):
    n = 0
    while (y := x - n) > 1:
        n = n + 1
    return y * 2 + n


@program(10.2, 3.4)
def while_over_a_structure(x):
    state = (x, {"sum": x * 0})
    while state[0] > 1:
        state = (state[0] - 2, {"sum": state[1]["sum"] + state[0]})
    return state[1]["sum"]


@program(10.2, 3.4)
def a_temporary_in_a_loop(x):
    t = "not an array"
    while x > 2:
        t = x / 3
        x = x - t
    return x


# for


@program((2.0, 0), (2.0, 1), (2.0, 5))
def power(x, n):
    c = 1.0
    for _ in range(n):
        c = c * x
    return c


@program((2, 9), (9, 2), (-3, 3), smooth=False)
def range_of_two(a, b):
    total = 0
    for i in range(a, b):
        total += i * i
    return total


@program((1, 20, 3), (20, 1, -4), (0, 0, 5), (5, 6, 7), smooth=False)
def range_of_three(a, b, c):
    total = 100
    for i in range(a, b, c):
        total = total * 2 % 1009 + i
    return total


@program(np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.5, 2.0]))
def sum_of_an_array(xs):
    total = 0.0
    for x in xs:
        total = total + x * x
    return total


@program(np.array([1.0, -2.0, 3.0]), np.array([-1.0, -0.5, -2.0]))
def sum_of_the_positive(xs):
    total = 0
    for x in xs:
        if x > 0:
            total += x
    return total


@program(np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([-4.0, 5.0, 6.0]))
def until_the_first_negative(xs):
    total = 0.0
    for x in xs:
        if x < 0:
            break
        total = total + x
    return total * 2


@program(np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([-4.0, 5.0, 6.0]))
def for_else(xs):
    total = 0.0
    for x in xs:
        if x < 0:
            break
        total = total + x
    else:
        total = total * 10
    return total


@program(np.array([1.0, 7.0, 9.0]), np.array([1.0, 2.0, 3.0]), np.array([8.0, 2.0, 3.0]))
def find_the_first(xs):
    for x in xs:
        if x > 5:
            return x * x
    return xs[0] * 3


@program(np.array([1.0, 7.0, 9.0]), np.array([1.0, 2.0, 3.0]), smooth=False)
def index_of_the_first(xs):
    for i, x in enumerate(xs):  # noqa: B007
        if x > 5:
            break
    else:
        i = -1
    return i


@program(np.array([1.0, 7.0, 9.0]), np.array([3.0, 2.0, 1.0]))
def last_value_after_a_loop(xs):
    for x in xs:
        y = x * 2
    return x + y


@program((np.array([1.0, 2.0, 3.0]), np.array([4.0, -5.0, 6.0])))
def zip_of_arrays(xs, ys):
    total = 0.0
    for x, y in zip(xs, ys, strict=True):
        if y > 0:
            total = total + x * y
        else:
            total = total - x
    return total


@program(np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]))
def rows_of_a_matrix(m):
    out = m[0] * 0
    for row in m:
        if row.min() > 0:
            out = out * 2 + row
        else:
            out = out - row
    return (out * out).sum()


@program(np.array([[1.0, 2.0], [3.0, -4.0]]))
def loops_in_loops(m):
    total = 0.0
    for row in m:
        for x in row:
            if x < 0:
                continue
            total = total + x * x
        total = total * 2
    return total


@program(np.array([1.0, 2.0, 3.0]), np.array([3.0, -2.0, 1.0]))
def reversed_array(xs):
    total = 0.0
    for x in reversed(xs):
        total = total * 2 + x
    return total


@program(0.1, 1.1, 20.0)
def plain_range_with_a_traced_break(x):
    total = 0.0
    for i in range(6):
        if total > 10:
            break
        total = total + x * (i + 1)
    return total


@program(0.1, 1.0, 20.0)
def plain_range_with_a_traced_return(x):
    for i in range(5):
        x = x * 2
        if x > 30:
            return x + i
    return -x


@program(0.1, 3.0, 20.0)
def plain_list_with_a_traced_continue(x):
    total = x
    for w in [1.0, 2.0, 3.0]:
        if x * w > 8:
            continue
        total = total * w + 1
    else:
        total = total + 1
    return total


@program(0.1, 3.1, 20.0)
def break_of_the_inner_loop(x):
    total = 0.0
    for i in range(3):
        for j in range(4):
            if x * j > 5 + i:
                break
            total = total + x
        else:
            total = total + 100
    return total


@program(np.array([1.0, 2.0, 30.0]), np.array([-1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0]))
def return_from_nested_loops(xs):
    for i in range(3):
        for x in xs:
            if x < 0:
                return x * i - 1
            if x > 20:
                return x * 2
    return xs[1]


@program((2.0, 4), (2.0, 9))
def traced_range_with_break(x, n):
    total = 0.0
    for i in range(n):
        if i == 6:
            break
        total = total + x
    return total


@program(1.0, 3.0)
def plain_loop_inside_a_branch(x):
    y = x
    if x > 2:
        for i in range(10):
            if i == 3:
                break
            if i == 1:
                continue
            y = y * x
    return y


@program(1.0, 3.0, 50.0)
def plain_iterator_left_by_a_traced_condition(x):
    total = 0.0
    for i, w in zip(itertools.count(1), [0.5, 1.5, 2.5], strict=False):
        total = total + w * x
        if total > 20:
            total = total + i
            break
    return total
