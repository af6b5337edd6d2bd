"""Random programs in plain Python: nested conditions, loops, and every way out of them."""

from __future__ import annotations

import random
from typing import Any

VARIABLES = ["a", "b", "c"]


class Writer:
    """Writes one program; all variables have a value from the start, and every loop ends."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0
        self.left = 14

    def program(self) -> str:
        lines = ["def program(x, n, xs):", "    a = x", "    b = x * 0.5", "    c = 1.0"]
        lines += self.block(1, 0, 5)
        if self.random.random() < 0.8:
            lines.append(f"    return {self.value()}")
        else:
            lines += [f"    if {self.test()}:", f"        return {self.value()}", "    return a + b * 3 + c * 7"]
        return "\n".join(lines) + "\n"

    def value(self) -> str:
        a, b = self.random.choice(VARIABLES), self.random.choice([*VARIABLES, "x", "1.5", "2"])
        forms = [
            f"{a} + {b}", f"{a} - {b}", f"{a} * 0.5 + {b}", f"-{a}", f"abs({a})", f"{a}", "x",
            f"({a} if {self.test(1)} else {b} * 0.25)",
        ]  # fmt: skip
        return f"clip({self.random.choice(forms)})"

    def test(self, depth: int = 0) -> str:
        a, b = self.random.choice(VARIABLES), self.random.choice([*VARIABLES, "0", "1.5", "-2"])
        sign = self.random.choice("< > <= >=".split())
        forms = [f"{a} {sign} {b}", f"n {sign} 2", f"-1 < {a} < 2", "len(xs) > 2"]
        if depth < 2 and self.random.random() < 0.4:
            other, first = self.test(depth + 1), self.test(depth + 1)
            return self.random.choice([f"{first} and {other}", f"({first} or {other})", f"not ({first})"])
        return self.random.choice(forms)

    def block(self, depth: int, loops: int, most: int) -> list[str]:
        pad = "    " * depth
        out: list[str] = []
        for _ in range(self.random.randint(1, most)):
            self.left -= 1
            kind = self.random.random()
            if kind < 0.4 or depth > 4 or self.left < 0:
                out.append(f"{pad}{self.random.choice(VARIABLES)} = {self.value()}")
            elif kind < 0.7:
                out += self.condition(depth, loops)
            elif kind < 0.76:
                name = self.random.choice(VARIABLES)
                out.append(f"{pad}{name} += {self.random.choice(VARIABLES)} * 0.25")
            else:
                out += self.loop(depth, loops)
        return out

    def condition(self, depth: int, loops: int) -> list[str]:
        pad = "    " * depth
        out = [f"{pad}if {self.test()}:", *self.side(depth + 1, loops)]
        while self.random.random() < 0.25:
            out += [f"{pad}elif {self.test()}:", *self.side(depth + 1, loops)]
        if self.random.random() < 0.5:
            out += [f"{pad}else:", *self.side(depth + 1, loops)]
        return out

    def side(self, depth: int, loops: int) -> list[str]:
        out = self.block(depth, loops, 2)
        ways = [f"return {self.value()}"] if self.random.random() < 0.5 else []
        ways += ["break", "continue"] if loops else []
        if ways and self.random.random() < 0.5:
            out.append("    " * depth + self.random.choice(ways))
        return out

    def loop(self, depth: int, loops: int) -> list[str]:
        pad = "    " * depth
        k = f"k{self.counters}"
        self.counters += 1
        kind = self.random.randrange(5)
        if kind == 0:
            out = [f"{pad}{k} = 0", f"{pad}while {k} < 3 and {self.test()}:", f"{pad}    {k} += 1"]
        elif kind == 1:
            out = [
                f"{pad}{k} = 0",
                f"{pad}while True:",
                f"{pad}    {k} += 1",
                f"{pad}    if {k} > n:",
                f"{pad}        break",
            ]
        else:
            over = ["range(n)", "xs", "range(3)"][kind - 2]
            out = [f"{pad}for {k} in {over}:", f"{pad}    {self.random.choice(VARIABLES)} = clip({k} * 0.5 + a)"]
        out += self.block(depth + 1, loops + 1, 3)
        if self.random.random() < 0.3:
            out += [f"{pad}else:", *self.block(depth + 1, loops, 1)]
        return out


def compiled(seed: int, path: Any, wide: bool = False) -> tuple[str, Any]:
    """The text of a program, and its function, read from a file so that its source is known."""
    import dala_defn as dd

    text = Writer(seed).program()
    file = path / f"program_{seed}.py"
    file.write_text(text)
    one = dd.array(1.0, dd.float64 if wide else dd.float32)
    names: dict[str, Any] = {"clip": lambda v: dd.clip(v * one, -20.0, 20.0)}
    exec(compile(text, str(file), "exec"), names)
    return text, names["program"]
