"""The loops of a kernel: from a plan to a module of LLVM IR.

A sweep runs over one line of elements. It goes over whole vectors in place while every operand is laid out one element
after the other; what is left of a line, and any line with other strides, goes through buffers of one vector, so that
the computation is in the code once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dala_defn.codegen.emit import EMIT, cast, load, packed, unpacked
from dala_defn.codegen.lanes import BITS, Lanes, Module, memory, register
from dala_defn.codegen.reduce import Accumulator
from dala_defn.dtypes import int64
from dala_defn.ops.spec import OPS
from dala_defn.passes.kernels import REDUCTIONS, Instr, KernelPlan

RECOMPUTED = 3  # a number that needs at most this many ops is computed again in a later sweep, not kept


def lanes_of(plan: KernelPlan, vector_bytes: int) -> int:
    """How many elements a kernel takes at a time: two registers of the widest type, or one where the work is heavy."""
    widest = max([BITS[register(i.out)] // 8 for i in plan.instrs], default=4) or 1
    work = sum(map(_cost, plan.instrs))
    return max(4, min(32, vector_bytes // widest * (1 if work > 24 else 2)))


def _cost(i: Instr) -> int:
    return max(1, OPS[i.op].cost) if i.args else 0


def kernel_module(plan: KernelPlan, symbol: str, vector_bytes: int) -> str:
    """The module of a plan, with one visible function called ``symbol``."""
    return _Kernel(plan, symbol, lanes_of(plan, vector_bytes)).text()


class _Kernel:
    """One kernel being written."""

    def __init__(self, plan: KernelPlan, symbol: str, lanes: int) -> None:
        self.plan = plan
        self.symbol = symbol
        self.module = Module(lanes)
        self.b = Lanes(self.module)
        self.rows = plan.parallel < plan.rank
        self.inner = plan.rank - 1
        self.labels = 0
        self.count = len(plan.inputs) + len(plan.outputs)
        self.dtypes = [d for d, _ in (*plan.inputs, *plan.outputs)]
        self.axes = [a for _, a in (*plan.inputs, *plan.outputs)]
        self.streamed = [self.inner in a for a in self.axes]
        self.level: list[bool] = []  # whether an instruction varies along the line
        self.stage: list[int] = []
        self.users: list[list[int]] = [[] for _ in plan.instrs]
        for at, i in enumerate(plan.instrs):
            self.level.append(self.inner in i.axes)
            before = max([self.stage[a] for a in i.args], default=0)
            self.stage.append(before + 1 if self._sweeps(i) else before)
            for a in i.args:
                self.users[a].append(at)
        self.env: dict[int, str] = {}  # registers that hold for the whole line
        self.accumulators = {
            at: Accumulator(i.op, i.dtype, f"acc{at}") for at, i in enumerate(plan.instrs) if self._sweeps(i)
        }
        self.kept: dict[int, int] = {}

    def _sweeps(self, i: Instr) -> bool:
        return i.op in REDUCTIONS and bool(i.attrs)

    def text(self) -> str:
        """The module as text."""
        sweeps = list(self._sweep_needs())
        self._choose_kept(sweeps)
        self._open()
        self._lines(sweeps)
        body = "\n".join(self.b.lines)
        head = f"define i32 @{self.symbol}(ptr %data, ptr %extents, ptr %strides, i64 %begin, i64 %end) nounwind {{\n"
        return f'{self.module.text()}\n{head}{body}\n}}\n!0 = !{{!"branch_weights", i32 1, i32 2000}}\n'

    # What each sweep computes.

    def _sweep_needs(self) -> Iterator[tuple[list[int], list[int]]]:
        """For each sweep the reductions that it feeds and the outputs that it writes."""
        last = max(self.stage, default=0)
        for s in range(last + 1):
            fed = [at for at in self.accumulators if self.stage[at] == s + 1]
            written = [
                k
                for k, at in enumerate(self.plan.results)
                if self.streamed[len(self.plan.inputs) + k] and self.stage[at] == s
            ]
            yield fed, written

    def _roots(self, sweep: tuple[list[int], list[int]]) -> list[int]:
        fed, written = sweep
        return [self.plan.instrs[at].args[0] for at in fed] + [self.plan.results[k] for k in written]

    def _needed(self, roots: list[int], held: set[int]) -> list[int]:
        """What a sweep computes for each element, in order; what is held needs nothing itself."""
        found: set[int] = set()
        todo = list(roots)
        while todo:
            at = todo.pop()
            if at in found or not self.level[at]:
                continue
            found.add(at)
            if at not in held:
                todo.extend(self.plan.instrs[at].args)
        return sorted(found)

    def _cost(self, at: int, held: set[int]) -> int:
        needed = self._needed([at], held)
        return sum(max(1, min(4, _cost(self.plan.instrs[a]))) for a in needed if a not in held)

    def _choose_kept(self, sweeps: list[tuple[list[int], list[int]]]) -> None:
        """Numbers of one sweep that a later one needs and that are dear are kept in a line of their own."""
        held: set[int] = set()
        for s in range(1, len(sweeps)):
            before = {at for e in sweeps[:s] for at in self._needed(self._roots(e), held)}
            for at in self._needed(self._roots(sweeps[s]), held):
                if at in before and at not in held and self._cost(at, held) > RECOMPUTED:
                    later = [u for u in self.users[at] if u not in before] or at in self._roots(sweeps[s])
                    if later:
                        held.add(at)
        self.kept = {at: k for k, at in enumerate(sorted(held))}

    # The frame: slots, strides, rows.

    def _label(self, name: str) -> str:
        self.labels += 1
        return f"{name}{self.labels}"

    def _open(self) -> None:
        b, plan = self.b, self.plan
        b.put("entry:")
        for acc in self.accumulators.values():
            acc.allocate(b)
        for k in range(self.count):
            b.put(f"  %base{k} = alloca ptr")
            b.put(f"  %buffer{k} = alloca {b.type(memory(self.dtypes[k]))}, align 64")
        for name in ("at", "m", "i", "count", "valid", "buffered"):
            b.put(f"  %{name} = alloca i64")
        b.put("  %row = alloca i64")
        b.put("  store i64 %begin, ptr %row")
        self.data = [self._field("data", k, "ptr") for k in range(self.count)]
        self.extent = [self._field("extents", a, "i64") for a in range(plan.rank)]
        self.stride = [
            [self._field("strides", k * plan.rank + a, "i64") if a in self.axes[k] else "0" for a in range(plan.rank)]
            for k in range(self.count)
        ]
        self.iotas = [at for at, i in enumerate(plan.instrs) if i.op == "iota" and i.axes]
        self.unit = "true"
        for k in range(self.count):
            if self.streamed[k]:
                same = b.add(f"icmp eq i64 {self.stride[k][self.inner]}, {self.dtypes[k].itemsize}")
                self.unit = b.add(f"and i1 {self.unit}, {same}")

    def _field(self, array: str, index: int, elem: str) -> str:
        at = self.b.add(f"getelementptr {elem}, ptr %{array}, i64 {index}")
        return self.b.add(f"load {elem}, ptr {at}")

    def _scratch(self) -> None:
        """Memory for the lines that are kept."""
        b = self.b
        length = b.add(f"add i64 {self.extent[self.inner]}, {b.width - 1}")
        length = b.add(f"and i64 {length}, {-b.width}")
        total = b.add(f"mul i64 {length}, {8 * len(self.kept)}")
        total = b.add(f"add i64 {total}, 64")
        self.module.declared["declare ptr @malloc(i64)"] = None
        self.module.declared["declare void @free(ptr)"] = None
        self.memory = b.add(f"call ptr @malloc(i64 {total})")
        none = b.add(f"icmp eq ptr {self.memory}, null")
        b.put(f"  br i1 {none}, label %failed, label %ready\nfailed:\n  ret i32 1\nready:")
        number_ = b.add(f"ptrtoint ptr {self.memory} to i64")
        number_ = b.add(f"and i64 {b.add(f'add i64 {number_}, 63')}, -64")
        start = b.add(f"inttoptr i64 {number_} to ptr")
        bytes_ = b.add(f"mul i64 {length}, 8")
        self.keep_base: list[str] = []
        for k in range(len(self.kept)):
            offset = b.add(f"mul i64 {bytes_}, {k}")
            self.keep_base.append(b.add(f"getelementptr i8, ptr {start}, i64 {offset}"))

    def _lines(self, sweeps: list[tuple[list[int], list[int]]]) -> None:
        b = self.b
        if self.kept:
            self._scratch()
        length, ends = ("1", []) if self.plan.rank == 0 else self._merged()
        b.put("  br label %rows\nrows:")
        row = b.add("load i64, ptr %row")
        more = b.add(f"icmp slt i64 {row}, %end")
        b.put(f"  br i1 {more}, label %line, label %done\nline:")
        if self.rows or self.plan.rank == 0:
            n, start, left = length, "0", row
            b.put(f"  store i64 {b.add(f'add i64 {row}, 1')}, ptr %row")
        else:
            start = b.add(f"urem i64 {row}, {length}")
            left = b.add(f"udiv i64 {row}, {length}")
            n = self._least(b.add(f"sub i64 {length}, {start}"), b.add(f"sub i64 %end, {row}"))
            b.put(f"  store i64 {b.add(f'add i64 {row}, {n}')}, ptr %row")
        self._place(start, left, ends)
        self._line(n, sweeps)
        b.put("  br label %rows\ndone:")
        if self.kept:
            b.put(f"  call void @free(ptr {self.memory})")
        b.put("  ret i32 0")

    def _least(self, x: str, y: str) -> str:
        less = self.b.add(f"icmp slt i64 {x}, {y}")
        return self.b.add(f"select i1 {less}, i64 {x}, i64 {y}")

    def _moving(self) -> Iterator[list[str]]:
        """The strides of everything that has them, indices that are counted included."""
        yield from self.stride
        for at in self.iotas:
            yield ["1" if a in self.plan.instrs[at].axes else "0" for a in range(self.plan.rank)]

    def _merged(self) -> tuple[str, list[str]]:
        """The length of a line, and the extents over which lines are counted.

        An axis whose strides continue those of the line after it is a part of the line, which is found out here, from
        the strides of this call.
        """
        b = self.b
        length = self.extent[self.inner]
        ends = list(self.extent[: self.inner])
        if self.rows:
            return length, ends
        going = "true"
        for a in reversed(range(self.inner)):
            fits = "true"
            for s in self._moving():
                if s[a] == s[self.inner] == "0":
                    continue
                whole = b.add(f"mul i64 {s[self.inner]}, {length}")
                fits = b.add(f"and i1 {fits}, {b.add(f'icmp eq i64 {whole}, {s[a]}')}")
            fits = b.add(f"or i1 {fits}, {b.add(f'icmp eq i64 {self.extent[a]}, 1')}")
            going = b.add(f"and i1 {going}, {fits}")
            longer = b.add(f"mul i64 {length}, {self.extent[a]}")
            length = b.add(f"select i1 {going}, i64 {longer}, i64 {length}")
            ends[a] = b.add(f"select i1 {going}, i64 1, i64 {self.extent[a]}")
        return length, ends

    def _place(self, start: str, row: str, ends: list[str]) -> None:
        """Where each operand is at the start of a line, given the number of the line."""
        b = self.b
        index: list[str] = ["0"] * len(ends)
        for a in reversed(range(len(ends))):
            if a == 0:
                index[a] = row
            else:
                index[a] = b.add(f"urem i64 {row}, {ends[a]}")
                row = b.add(f"udiv i64 {row}, {ends[a]}")
        places = []
        for s in self._moving():
            at = "0" if self.rows or not s or s[-1] == "0" else b.add(f"mul i64 {start}, {s[-1]}")
            for a, i in enumerate(index):
                if s[a] != "0":
                    at = b.add(f"add i64 {at}, {b.add(f'mul i64 {i}, {s[a]}')}")
            places.append(at)
        self.start = [b.add(f"getelementptr i8, ptr {self.data[k]}, i64 {places[k]}") for k in range(self.count)]
        self.first = dict(zip(self.iotas, places[self.count :], strict=True))

    # One line.

    def _line(self, n: str, sweeps: list[tuple[list[int], list[int]]]) -> None:
        self.env = {}
        self.filled: set[int] = set()
        for s, sweep in enumerate(sweeps):
            for at in range(len(self.plan.instrs)):
                if not self.level[at] and self.stage[at] == s and at not in self.env:
                    self._whole_line(at)
            if sweep[0] or sweep[1]:
                self._sweep(n, sweep)
            for at in sweep[0]:
                self.env[at] = self.accumulators[at].finish(self.b)
        inputs = len(self.plan.inputs)
        for k, at in enumerate(self.plan.results):
            if not self.streamed[inputs + k]:
                self._store_one(inputs + k, self.env[at])

    def _whole_line(self, at: int) -> None:
        """What does not vary along the line."""
        i = self.plan.instrs[at]
        if i.op == "input":
            m = memory(i.dtype)
            x = self.b.add(f"load {m}, ptr {self.start[i.attrs]}, align {i.dtype.itemsize}")
            self.env[at] = unpacked(self.b, i.dtype, self.b.splat(m, x))
        elif i.op == "iota" and i.axes:
            self.env[at] = cast(self.b, self.b.splat("i64", self.first[at]), int64, i.out)
        else:
            self.env[at] = self._compute(at, self.env)

    def _store_one(self, k: int, x: str) -> None:
        m = memory(self.dtypes[k])
        one = self.b.add(f"extractelement {self.b.type(m)} {packed(self.b, self.dtypes[k], x)}, i32 0")
        self.b.put(f"  store {m} {one}, ptr {self.start[k]}, align {self.dtypes[k].itemsize}")

    def _compute(self, at: int, env: dict[int, str]) -> str:
        i = self.plan.instrs[at]
        if i.op == "constant":
            return self._constant(i)
        if i.op == "iota":
            return self.b.const(register(i.out), 0)
        if i.op in REDUCTIONS:
            return env[i.args[0]]
        return EMIT[i.op](self.b, [env[a] for a in i.args], i.dtype, {**dict(i.attrs), "of": i.out})

    def _constant(self, i: Instr) -> str:
        value = np.frombuffer(bytes.fromhex(i.attrs), i.dtype.dtype)[0]
        elem = register(i.dtype)
        return self.b.const(elem, float(value) if i.dtype.is_float else int(value))

    def _sweep(self, n: str, sweep: tuple[list[int], list[int]]) -> None:
        """Whole vectors in place, then one vector at a time through the buffers until nothing is left."""
        b, w = self.b, self.b.width
        fed, written = sweep
        held = set(self.filled)
        needed = self._needed(self._roots(sweep), held)
        read = [self.plan.instrs[at].attrs for at in needed if self.plan.instrs[at].op == "input"]
        wrote = [len(self.plan.inputs) + k for k in written]
        chunk, vectors, after, unload, rest, fill, over = map(
            self._label, ("chunk", "vectors", "after", "unload", "rest", "fill", "over")
        )
        for at in fed:
            self.accumulators[at].start(b)
        whole = b.add(f"and i64 {n}, {-w}")
        whole = b.add(f"select i1 {self.unit}, i64 {whole}, i64 0")
        self._set(at="0", m=whole, count=whole, valid=str(w), buffered="0")
        for k in (*read, *wrote):
            b.put(f"  store ptr {self.start[k]}, ptr %base{k}")
        b.put(f"  br label %{chunk}\n{chunk}:")
        self._set(i="0")
        m = self._get("m")
        b.put(f"  br i1 {b.add(f'icmp eq i64 {m}, 0')}, label %{after}, label %{vectors}\n{vectors}:")
        self._vector(needed, held, fed, written)
        i = b.add(f"add i64 {self._get('i')}, {w}")
        self._set(i=i)
        b.put(f"  br i1 {b.add(f'icmp slt i64 {i}, {m}')}, label %{vectors}, label %{after}\n{after}:")
        buffered = b.add(f"icmp ne i64 {self._get('buffered')}, 0")
        at_, count = self._get("at"), self._get("count")
        b.put(f"  br i1 {buffered}, label %{unload}, label %{rest}\n{unload}:")
        for k in wrote:
            self._move(False, k, at_, count)
        b.put(f"  br label %{rest}\n{rest}:")
        at_ = b.add(f"add i64 {at_}, {count}")
        left = b.add(f"sub i64 {n}, {at_}")
        b.put(f"  br i1 {b.add(f'icmp sgt i64 {left}, 0')}, label %{fill}, label %{over}\n{fill}:")
        count = self._least(left, str(w))
        self._set(at=at_, m=str(w), count=count, valid=count, buffered="1")
        for k in (*read, *wrote):
            b.put(f"  store ptr %buffer{k}, ptr %base{k}")
        for k in read:
            self._move(True, k, at_, count)
        b.put(f"  br label %{chunk}\n{over}:")
        self.filled.update(at for at in needed if at in self.kept)

    def _set(self, **values: str) -> None:
        for name, value in values.items():
            self.b.put(f"  store i64 {value}, ptr %{name}")

    def _get(self, name: str) -> str:
        return self.b.add(f"load i64, ptr %{name}")

    def _move(self, load_: bool, k: int, at: str, count: str) -> None:
        """Elements of an operand into its buffer, or of the buffer of a result back."""
        b, s = self.b, self.stride[k][self.inner]
        place = b.add(f"getelementptr i8, ptr {self.start[k]}, i64 {b.add(f'mul i64 {at}, {s}')}")
        name = mover(self.module, load_, self.dtypes[k].itemsize)
        b.put(f"  call void @{name}(ptr %buffer{k}, ptr {place}, i64 {s}, i64 {count})")

    def _vector(self, needed: list[int], held: set[int], fed: list[int], written: list[int]) -> None:
        """One vector of elements."""
        b, env = self.b, dict(self.env)
        i = self._get("i")
        along = b.add(f"add i64 {self._get('at')}, {i}")
        for at in needed:
            instr = self.plan.instrs[at]
            if at in held:
                env[at] = self._recall(at, along)
            elif instr.op == "input":
                env[at] = load(b, instr.dtype, self._element(instr.attrs, i))
            elif instr.op == "iota":
                index = b.splat("i64", b.add(f"add i64 {self.first[at]}, {along}"))
                env[at] = cast(b, b.op("add", "i64", index, b.iota("i64")), int64, instr.out)
            else:
                env[at] = self._compute(at, env)
            if at in self.kept and at not in held:
                self._keep(at, along, env[at])
        if fed:
            valid = b.splat("i32", b.add(f"trunc i64 {self._get('valid')} to i32"))
            mask = b.compare("ult", "i32", b.iota("i32"), valid)
            for at in fed:
                self.accumulators[at].take(b, env[self.plan.instrs[at].args[0]], mask)
        for r in written:
            k = len(self.plan.inputs) + r
            x = packed(b, self.dtypes[k], env[self.plan.results[r]])
            place = self._element(k, i)
            b.put(f"  store {b.type(memory(self.dtypes[k]))} {x}, ptr {place}, align {self.dtypes[k].itemsize}")

    def _element(self, k: int, i: str) -> str:
        base = self.b.add(f"load ptr, ptr %base{k}")
        return self.b.add(f"getelementptr {memory(self.dtypes[k])}, ptr {base}, i64 {i}")

    def _kept_elem(self, at: int) -> str:
        elem = register(self.plan.instrs[at].out)
        return "i8" if elem == "i1" else elem

    def _keep(self, at: int, along: str, x: str) -> None:
        b, elem = self.b, self._kept_elem(at)
        place = b.add(f"getelementptr {elem}, ptr {self.keep_base[self.kept[at]]}, i64 {along}")
        x = b.convert("zext", "i1", "i8", x) if register(self.plan.instrs[at].out) == "i1" else x
        b.put(f"  store {b.type(elem)} {x}, ptr {place}, align 8")

    def _recall(self, at: int, along: str) -> str:
        b, elem = self.b, self._kept_elem(at)
        place = b.add(f"getelementptr {elem}, ptr {self.keep_base[self.kept[at]]}, i64 {along}")
        x = b.add(f"load {b.type(elem)}, ptr {place}, align 8")
        return b.compare("ne", "i8", x, b.const("i8", 0)) if register(self.plan.instrs[at].out) == "i1" else x


def mover(module: Module, load_: bool, size: int) -> str:
    """Moves a few elements between a buffer and memory with a stride: up to one vector."""
    name = f"{'load' if load_ else 'store'}{size}"
    w, elem = module.lanes, f"i{size * 8}"
    t, bits = f"<{w} x {elem}>", f"<{w} x i1>"
    index = ", ".join(f"i32 {i}" for i in range(w))
    masked = ""
    if size >= 4:  # what vector units have masks for
        if load_:
            whole = (
                f"  %x = call {t} @llvm.masked.load.v{w}{elem}.p0(ptr %p, i32 {size}, {bits} %mask, "
                f"{t} zeroinitializer)\n"
                f"  store {t} %x, ptr %b, align 64\n"
            )
            module.declared[f"declare {t} @llvm.masked.load.v{w}{elem}.p0(ptr, i32 immarg, {bits}, {t})"] = None
        else:
            whole = (
                f"  %x = load {t}, ptr %b, align 64\n"
                f"  call void @llvm.masked.store.v{w}{elem}.p0({t} %x, ptr %p, i32 {size}, {bits} %mask)\n"
            )
            module.declared[f"declare void @llvm.masked.store.v{w}{elem}.p0({t}, ptr, i32 immarg, {bits})"] = None
        masked = (
            f"  %near = icmp eq i64 %s, {size}\n  br i1 %near, label %whole, label %loop\nwhole:\n"
            f"  %n32 = trunc i64 %n to i32\n  %one = insertelement <{w} x i32> poison, i32 %n32, i64 0\n"
            f"  %all = shufflevector <{w} x i32> %one, <{w} x i32> poison, <{w} x i32> zeroinitializer\n"
            f"  %mask = icmp ult <{w} x i32> <{index}>, %all\n{whole}  ret void\n"
        )
    clear = f"  store {t} zeroinitializer, ptr %b, align 64\n" if load_ else ""
    return module.raw(
        name,
        f"define internal void @{name}(ptr %b, ptr %p, i64 %s, i64 %n) noinline nounwind {{\nentry:\n{clear}"
        f"{masked or '  br label %loop' + chr(10)}loop:\n"
        f"  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
        f"  %in = getelementptr {elem}, ptr %b, i64 %i\n  %off = mul i64 %i, %s\n"
        f"  %out = getelementptr i8, ptr %p, i64 %off\n"
        f"  %v = load {elem}, ptr {'%out' if load_ else '%in'}, align {size}\n"
        f"  store {elem} %v, ptr {'%in' if load_ else '%out'}, align {size}\n"
        f"  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %n\n"
        f"  br i1 %more, label %loop, label %done\ndone:\n  ret void\n}}\n",
    )
