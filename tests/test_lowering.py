"""Compiled kernels do what their Python source does."""

from __future__ import annotations

import linecache
import os
import random
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accelsim.model.jit import CompiledKernel, inline, jit
from accelsim.model.kinds import KernelError

pytestmark = pytest.mark.skipif(bool(os.environ.get("ACCELSIM_PLAIN")), reason="nothing is compiled then")

FACTOR = 3
PAIR = (4, 7)
SMALL = float(2**-1074)


def both(kernel: CompiledKernel, *arguments):
    """What a kernel returns and what it leaves in arrays, compiled and as Python."""
    said = []
    for form in (kernel, kernel.plain()):
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        result = form(*given)
        said.append((result, [each.tolist() for each in given if isinstance(each, np.ndarray)]))
    return said


def agree(kernel: CompiledKernel, *arguments) -> None:
    compiled, plain = both(kernel, *arguments)
    assert compiled == plain


@jit
def divide(a, b):
    return a // b, a % b, a / b


@pytest.mark.parametrize("a", [-7, -6, 0, 6, 7, 2**62])
@pytest.mark.parametrize("b", [-3, -2, 1, 2, 5])
def test_division__rounds_down(a, b):
    agree(divide, a, b)


@jit
def divide_by_constants(a):
    return a // 4, a % 4, a // -3, a % -3


@pytest.mark.parametrize("a", [-9, -8, 0, 8, 9])
def test_division__by_constants_rounds_down(a):
    agree(divide_by_constants, a)


def test_division__by_zero_is_zero_of_integers_and_infinite_of_floats():
    assert divide(5, 0) == (0, 0, np.inf)
    assert divide(-5, 0) == (0, 0, -np.inf)


@jit
def count(values, first, last, step):
    found, passed, last_seen = 0, 0, -1
    for k in range(first, last, step):
        last_seen = k
        if k == 3:
            continue
        if k == 7:
            break
        found += values[k] * (passed + 1)
        passed += 1
    for k in range(5, -1, -2):
        found = 2 * found + k
    return found, passed, last_seen


@pytest.mark.parametrize("ends", [(0, 6, 1), (0, 10, 1), (9, -1, -1), (9, 2, -3), (5, 5, 1), (5, 2, 1), (2, 5, -1)])
def test_loops__over_ranges_in_both_directions_end_where_those_of_python_do(ends):
    agree(count, np.arange(10) ** 2, *ends)


@jit
def changed_inside(limit):
    seen = 0
    for k in range(limit):
        seen += k
        k = 100
        seen += k
        limit = 0
    at = 0
    while True:
        at += 1
        if at * at > seen:
            return seen, at, limit


def test_loops__go_over_the_range_that_was_there_at_first():
    for limit in (0, 1, 5):
        agree(changed_inside, limit)


@jit
def known_later(values):
    """Names whose value depends on the way that was taken, some of them an integer or a float."""
    best, where, scale = 0, -1, 1
    for k in range(values.shape[0]):
        if values[k] > best:
            best, where = values[k], k
        elif values[k] < -1.0:
            scale = 0.5
        else:
            continue
        scale *= 3
    row = values[1:]
    if where > 1:
        row = values[:1]
    return best, where, scale, row[0], row.size


@pytest.mark.parametrize("seed", range(8))
def test_names__have_the_value_of_the_way_that_was_taken(seed):
    agree(known_later, np.random.default_rng(seed).normal(size=6) * 2)


@jit
def numbers(a, b, x, y, flag):
    total = max(a, x) + min(b, y, a) + abs(x) + abs(a)
    total += int(flag) + float(b) + (flag + flag) + (x if flag else a)
    total += int(x) - int(-x)
    mask = (a | 5) ^ (b & 6) ^ (a << 2) ^ (b >> 1) ^ ~a
    sure = (a < b <= 5 or not flag) and a not in (3, 4) and b in PAIR
    either = flag | (x != y)
    either &= a == a
    return total, mask, sure, either, np.ceil(x) + np.floor(y), -a, -x, float(FACTOR * a) ** 2.0, x > y > 0.5


@pytest.mark.parametrize("seed", range(20))
def test_numbers__are_computed_as_by_python(seed):
    rng = random.Random(seed)
    a, b = rng.randint(-5, 9), rng.randint(0, 9)
    agree(numbers, a, b, rng.uniform(-4, 4), rng.choice([0.75, -0.5, float(a)]), rng.random() < 0.5)


@jit
def least(a, b):
    return max(a, b), min(a, b), min(1, b), max(a, -1)


def test_least__of_what_is_no_number_is_the_first_one_as_in_python():
    for pair in ((np.nan, 1.0), (1.0, np.nan), (0.0, -0.0), (-0.0, 0.0), (SMALL, 0.0)):
        compiled, plain = both(least, *pair)
        assert np.array(compiled[0]).tobytes() == np.array(plain[0], float).tobytes()


@jit
def without_a_sign(state):
    state = (state ^ (state >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return state, float(state), state % np.uint64(1000), state // np.uint64(7), state > np.uint64(2**63), int(state)


def test_numbers__without_a_sign_use_all_bits():
    with np.errstate(over="ignore"):
        for seed in (1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15):
            compiled, plain = both(without_a_sign, np.uint64(seed))
            assert compiled[0][:5] == plain[0][:5]
            assert compiled[0][5] % 2**64 == plain[0][5]


@inline
def ends(values):
    return values[0], values[-1]


@jit
def parts(cube, plane, flags, first, last):
    """Rows, columns and slices, some of them empty or longer than what is left."""
    line = cube[1, first:last]
    low, high = ends(plane[0, :])
    column = plane[:, 1]
    found = 0
    for each in (line.shape[0], column.shape[0], first, last, low, high):
        found = 3 * found + each
    for each in column:
        found += each
    if line.shape[0] > 0:
        found += 1000 * line[0, 0] + line[-1, -1]
    cube[:, 0, 1] = 7
    cube[0, 2] = 8
    plane[first] = -1
    cube[0, 1, 1:] = first
    flags[first:] = True
    plane[:, 2][0] += 5
    return found, line.size, flags.any(), flags[:first].any(), cube[0].any(), len(plane), cube[-1, 1:].shape[0]


@pytest.mark.parametrize("first", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("last", [-2, 0, 1, 3, 9])
def test_parts__of_arrays_are_those_of_python(first, last):
    cube, plane = np.arange(24).reshape(2, 3, 4), np.arange(12).reshape(3, 4)
    agree(parts, cube, plane, np.zeros(3, bool), first, last)


@jit
def narrow(values, number):
    """Elements of fewer bits keep the lowest ones."""
    values[0] = number
    values[1] += number
    return values[0] * values[1]


@pytest.mark.parametrize("type_", [np.int8, np.int16, np.int32])
def test_elements__of_few_bits_are_integers(type_):
    agree(narrow, np.array([1, -5], type_), 9)


def module_of(folder: Path, text: str) -> ModuleType:
    """Import a text as a module of its own."""
    path = folder / "written.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    module = ModuleType("written")
    exec(compile(text, str(path), "exec"), vars(module))
    return module


class Program:
    """A random kernel of integers, floats, loops and branches."""

    def __init__(self, seed: int) -> None:
        self.rng, self.loops = random.Random(seed), 0

    def number(self, deep: int = 2) -> str:
        pick = self.rng.choice
        if deep == 0 or self.rng.random() < 0.3:
            return pick(["a", "b", "c", "d", "values[1]", "values[a % 4]", "values[-1]", str(self.rng.randint(-4, 9))])
        one, two = self.number(deep - 1), self.number(deep - 1)
        return pick(
            [
                f"({one} {pick('+-*&|^')} {two})",
                f"({one} {pick(['//', '%'])} {pick([-3, -1, 2, 5])})",
                f"({one} {pick(['//', '%'])} (abs({two}) + 1))",
                f"{pick(['min', 'max'])}({one}, {two})",
                f"({one} if {self.condition(deep - 1)} else {two})",
                "int(x)",
                f"int({self.condition(deep - 1)})",
            ]
        )

    def condition(self, deep: int = 2) -> str:
        pick = self.rng.choice
        if deep == 0 or self.rng.random() < 0.5:
            return f"{self.number(0)} {pick(['<', '<=', '>', '>=', '==', '!='])} {self.number(0)}"
        one, two = self.condition(deep - 1), self.condition(deep - 1)
        return pick([f"({one} and {two})", f"({one} or {two})", f"not ({one})", "a < b <= c", "sure", "x > y"])

    def body(self, deep: int, inside: bool) -> list[str]:
        return [line for _ in range(self.rng.randint(1, 4)) for line in self.statement(deep, inside)]

    def statement(self, deep: int, inside: bool) -> list[str]:
        pick, name, number = self.rng.choice, self.rng.choice("abcd"), self.number()
        kinds = ["set", "set", "add", "element", "swap", "flag", "float", "mixed"]
        kinds += ["if", "if", "for", "while"] * (deep > 0) + ["leave"] * inside + ["return"] * (deep < 2)
        kind = pick(kinds)
        simple = {
            "set": f"{name} = {number} % 1009 - 500",
            "add": f"{name} {pick(['+=', '-=', '^=', '//='])} {self.rng.randint(1, 9)}",
            "element": f"values[{pick(['a % 4', '-2', '0'])}] {pick(['=', '+=', '-='])} {number} % 101",
            "swap": "a, b, c = c, a, b",
            "flag": f"sure {pick(['=', '&=', '|='])} {self.condition()}",
            "float": f"x = {pick(['0.5', '1.5', '-0.25'])} * float({number} % 64) + {pick(['y', '1.0'])}",
            "mixed": f"y = {pick(['0', '2.5', 'min(x, 9.0)', '-1'])}",
            "leave": f"if {self.condition()}:\n    {pick(['break', 'continue'])}",
            "return": f"if {self.condition()} and a == 3:\n    return a, b, c, float(x), float(y), sure",
        }
        if kind in simple:
            return simple[kind].splitlines()
        indent = [f"    {line}" for line in self.body(deep - 1, inside or kind != "if")]
        if kind == "if":
            other = [f"    {line}" for line in self.body(deep - 1, inside)]
            return [f"if {self.condition()}:", *indent, *(["else:", *other] if self.rng.random() < 0.6 else [])]
        self.loops += 1
        if kind == "for":
            ends = pick(["3", "a % 4", "c % 3, 5", "6, b % 4, -1", "-2, 3, 2"])
            return [f"for {pick(['d', f'k{self.loops}'])} in range({ends}):", *indent]
        at = f"n{self.loops}"
        return [f"{at} = 0", f"while {at} < 3 and {self.condition()}:", f"    {at} += 1", *indent]

    def text(self) -> str:
        begin = ["b, c, d, x, y, sure = 2, -3, 5, 0.5, 1, a > 0"]
        lines = begin + [line for _ in range(5) for line in self.statement(2, False)]
        lines.append("return a, b, c, float(x), float(y), sure")
        head = "from accelsim.model.jit import jit\n\n@jit\ndef kernel(a, values):\n"
        return head + textwrap.indent("\n".join(lines), "    ") + "\n"


@pytest.mark.parametrize("seed", range(100))
def test_kernel__of_any_loops_and_branches_does_what_python_does(seed, tmp_path):
    text = Program(seed).text()
    kernel = module_of(tmp_path, text).kernel
    for a in (-7, 0, 3, 12):
        agree(kernel, a, np.array([3, -1, 4, 1]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [a]", "kernels have no List"),
        ("return [x for x in values][0]", "kernels have no ListComp"),
        ("return (lambda x: x)(a)", "kernels have no"),
        ("return print(a)", "kernels have no Call"),
        ("return unknown + a", "unknown is not known"),
        ("return values[0.5]", "0.5 is float, not int"),
        ("return values[0, 0]", "an array of 1 axes has 2 indices"),
        ("x = values if a > 0 else 1\n    return x", "nothing is both"),
        ("return a ** 2.0 % 3.0", "floats are divided by `/`"),
        ("return values.shape[0] + np.uint64(1)", "nothing is both int and uint"),
        ("return values", "no kernel returns an array of 1 axes"),
        ("return a, (a, 1)", "no kernel returns a tuple in a tuple"),
        ("return a, values", "no kernel returns an array of 1 axes in a tuple"),
        ("while a > 3:\n        a -= 1\n    else:\n        a = 9\n    return a", "kernels have no While"),
        ("for k in range(a):\n        x = k if k else values\n    return 0", "nothing is both"),
    ],
)
def test_kernel__refuses_what_it_does_not_know(body, message, tmp_path):
    """And names the kernel and the line."""
    head = "import numpy as np\nfrom accelsim.model.jit import jit\n\n@jit\ndef kernel(a, values):\n"
    module = module_of(tmp_path, f"{head}    {body}\n")
    with pytest.raises(KernelError, match=r"^written\.kernel, line \d+: ") as error:
        module.kernel(1, np.zeros(3))
    assert message in str(error.value)


def test_kernel__whose_file_has_changed_is_not_compiled(tmp_path, monkeypatch):
    """Its machine code would bear the name of what was imported."""
    monkeypatch.setenv("ACCELSIM_KERNELS", str(tmp_path / "codes"))
    head = "from accelsim.model.jit import jit\n\n@jit\ndef kernel(a):\n"
    module = module_of(tmp_path, f"{head}    return a + 1\n")
    (tmp_path / "written.py").write_text(f"{head}    return a + 22\n")
    linecache.checkcache(str(tmp_path / "written.py"))
    with pytest.raises(RuntimeError, match="kernel has changed since it was imported"):
        module.kernel(1)


def test_kernel__that_is_a_part_of_others_may_be_called_by_itself(tmp_path, monkeypatch):
    """As a part of another one, it has no name outside of it."""
    monkeypatch.setenv("ACCELSIM_KERNELS", str(tmp_path / "codes"))
    head = "from accelsim.model.jit import inline, jit\n\n@inline\ndef part(a):\n    return a + 1\n\n"
    module = module_of(tmp_path, f"{head}@jit\ndef kernel(a):\n    return 2 * part(a)\n")

    assert (module.kernel(3), module.part(3), module.kernel(4)) == (8, 4, 10)
