"""YAML text to nodes with marks, and parameters."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accelsim.inputs import fields
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import InputError, Mark
from accelsim.inputs.fields import Fields, Key, open_document
from accelsim.inputs.params import check_overrides, parameter_names, substitute
from accelsim.inputs.source import ListNode, MapNode, Problems, ScalarNode, compose_file, compose_text
from accelsim.inputs.workload_reader import load_workload


def compose(text: str) -> MapNode:
    problems = Problems()
    root = compose_text(text, "f.yaml", problems)
    assert isinstance(root, MapNode)
    assert not problems.found
    return root


def complaints(text: str) -> list[str]:
    problems = Problems()
    compose_text(text, "f.yaml", problems)
    return [str(problem) for problem in problems.found]


def values(text: str, overrides: dict[str, str] | None = None) -> dict[str, object]:
    """Values under the key `v` after substitution."""
    problems = Problems()
    root = substitute(compose(text), overrides or {}, problems)
    node = problems.result(root).entries["v"]
    return {key: plain(value) for key, value in node.entries.items()}


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(LEAVES, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=20)


@given(st.dictionaries(st.text(), TREES, min_size=1))
@example({"a": "x" * 100 + " y: [", "b": {"": [], "# c": "\u2028\x85\t'\""}, "d": [{}, [[]], "\n", "...", "1e3"]})
def test_dicts__are_read_as_their_text_is(values):
    """By libyaml: the same values at the same marks, and the same mistakes."""
    text, found = fields._as_text(values, "architecture"), []
    for dumped in (True, False):
        problems = Problems()
        found.append((compose_text(text, "f.yaml", problems, dumped=dumped), problems.found))
    assert found[0] == found[1]


def plain(node):
    return [plain(item) for item in node.items] if isinstance(node, ListNode) else node.text


def refusals(text: str, overrides: dict[str, str] | None = None) -> list[str]:
    problems = Problems()
    substitute(compose(text), overrides or {}, problems)
    return [str(problem) for problem in problems.found]


@pytest.mark.parametrize("text", ["NO", "on", "1e5", "0x10", "010", "1_000", "null", "~", "2024-01-01", "1:30"])
def test_compose__leaves_scalars_as_written(text):
    node = compose(f"a: {text}\n").entries["a"]
    assert node == ScalarNode(Mark("f.yaml", 1, 4), "", text)


def test_compose__knows_the_place_and_path_of_every_node():
    root = compose("top:\n  levels:\n    - {name: x}\n    - size: [1, 2]\n")
    size = root.entries["top"].entries["levels"].items[1].entries["size"]
    assert (size.path, str(size.mark)) == ("levels[1].size", "f.yaml:4:13")
    assert str(root.entries["top"].entries["levels"].items[1].key_marks["size"]) == "f.yaml:4:7"
    assert size.items[1].path == "levels[1].size[1]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml:1:1: the file is empty"),
        ("# nothing\n", "f.yaml:1:1: the file is empty"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key 'a' is given twice, first at line 1"),
        ("a: {b: 1, b: 2}\n", "f.yaml:1:11: key 'b' is given twice, first at line 1"),
        ("[a]: 1\n", "f.yaml:1:1: a key must be a word, not a list or mapping"),
        ("a: [1\nb: 2\n", "f.yaml:2:2: not valid YAML: ']' or ',' is missing: a bracket of line 1 is open"),
        ("a: {b: 1}}\n", "f.yaml:1:10: not valid YAML: '}' closes no bracket"),
        ("a: b: c\n", "f.yaml:1:5: not valid YAML: a ':' stands where no key can; begin each key on its own line"),
        ("a: 1\n  b: 2\n", "f.yaml:2:4: not valid YAML: a ':' stands where no key can; begin each key on its own line"),
        ("a: - b\n", "f.yaml:1:4: not valid YAML: a '-' stands where no list can begin; begin each item on its own"),
        (
            "v:\n  - a: 1\n    b: 2\n   c: 3\n",
            "f.yaml:4:4: not valid YAML: this line is not indented like the list that begins at line 2",
        ),
        (
            "a: 1\nb:\n    c: 1\n  d: 2\n",
            "f.yaml:4:3: not valid YAML: this line is not indented like the mapping that begins at line 1",
        ),
        ("a: 1\n\tb: 2\n", "f.yaml:2:1: not valid YAML: a tab stands where a line is indented; indent with spaces"),
        ("a: 1\nb\nc: 2\n", "f.yaml:2:1: not valid YAML: this key has no ':'; write `key: value`"),
        ("a: 'x\nb: 1\n", "f.yaml:1:4: not valid YAML: this quote is not closed"),
        ("a: @x\n", "f.yaml:1:4: not valid YAML: no value begins with '@'; put it in quotes"),
        ("a: 1\nb: \x00\n", "f.yaml:2:4: not valid YAML: a control character"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: not valid YAML: a second document begins here; a file holds one"),
        ("a: *b\n", "f.yaml:1:4: not valid YAML: the alias *b has no anchor &b before it"),
        ("a: &x 1\nb: &x 2\n", "f.yaml:2:4: not valid YAML: the anchor &x is given twice; give each its own name"),
        ("a: &b [*b]\n", "f.yaml:1:4: [0]: is a YAML alias of what it stands in; leave it out"),
        ("a: &b {<<: *b}\n", "f.yaml:1:4: is a YAML alias of what it stands in; leave it out"),
        ("v: {a: {<<: [{b: 1}, 3]}}\n", "f.yaml:1:22: a: expected a mapping under `<<`, got '3'"),
        ("a: {<<: {b: 1}, <<: {c: 1}}\n", "f.yaml:1:17: key '<<' is given twice, first at line 1"),
        ("a: !!int 3\n", "f.yaml:1:4: YAML tag 'tag:yaml.org,2002:int' is not read; leave it out"),
        ('a: "\\UFFFFFFFF"\n', "f.yaml:1:1: not valid YAML: "),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("[" * 1000, "f.yaml:1:1: nested too deeply"),
    ],
)
def test_compose__says_where_the_text_is_wrong(text, message):
    assert any(message in complaint for complaint in complaints(text))


def test_compose__reads_an_alias_as_what_it_stands_for():
    text = "v:\n  a: &shape {M: 4, N: [1, 2]}\n  b: *shape\n"
    a, b = (compose(text).entries["v"].entries[key].entries for key in ("a", "b"))
    assert [plain(node) for node in a.values()] == [plain(node) for node in b.values()] == ["4", ["1", "2"]]
    assert (b["N"].items[1].path, str(b["N"].items[1].mark)) == ("b.N[1]", "f.yaml:2:27")


def test_compose__merges_keys_that_are_not_there():
    """Own keys go before merged ones, and of a list of mappings the earlier go before the later."""
    text = "v:\n  - &a {x: 1, y: 2}\n  - &b {y: 3, z: 4}\n  - {z: 5, <<: [*a, *b], w: 6}\n"
    merged = compose(text).entries["v"].items[2]
    assert {key: node.text for key, node in merged.entries.items()} == {"x": "1", "y": "2", "z": "5", "w": "6"}
    assert (merged.entries["y"].path, str(merged.key_marks["y"])) == ("[2].y", "f.yaml:2:15")
    assert merged.key_marks.keys() == merged.entries.keys()


@pytest.mark.parametrize("use", ["[{}]", "{{<<: [{}]}}"])
def test_compose__follows_no_more_aliases_than_fit(use):
    """Nine aliases of nine aliases of ...: 9^9 values."""
    lines = [f"a{i}: &a{i} {use.format(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, 10)]
    text = "\n".join(["a0: &a0 {x: 1}", *lines])
    assert complaints(text) == ["f.yaml:1:5: not valid YAML: its aliases stand for more than 20,000 values"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("absent.yaml", None, "absent.yaml:1:1: no such file"),
        ("", None, ":1:1: is a directory, not a file"),
        ("f.yaml", b"a: 1\nb: \xff\n", "f.yaml:2:4: not UTF-8 text; save the file as UTF-8"),
        ("f\x00.yaml", None, ":1:1: cannot be read: embedded null byte"),
        ("f.yaml/g.yaml", b"", ":1:1: cannot be read: Not a directory"),
    ],
)
def test_compose_file__says_why_a_file_cannot_be_read(tmp_path, name, data, message):
    if data is not None:
        (tmp_path / "f.yaml").write_bytes(data)
    problems = Problems()
    assert compose_file(f"{tmp_path}/{name}", problems) is None
    assert str(problems.found[0]).endswith(message)


def test_compose_file__skips_a_byte_order_mark(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    root = compose_file(tmp_path / "f.yaml", Problems())
    assert list(root.entries) == ["a"]


def test_substitute__replaces_names_and_arithmetic():
    text = """
    params: {pe: {x: 14, y: 12}, glb: 128 KiB, twice: $pe.x * 2, pair: [1, $pe.y]}
    v: {a: $pe.x, b: "$pe.x * ($pe.y - 2)", c: $glb, d: [$twice, "-$pe.x + 20"], e: $pe.x // 4, f: $pair,
        g: $pe.x / 4 * 2, h: costs $5, i: US$ a}
    """
    expected = {"a": "14", "b": "140", "c": "128 KiB", "d": ["28", "6"], "e": "3", "f": ["1", "12"], "g": "7"}
    assert values(text) == expected | {"h": "costs $5", "i": "US$ a"}


def test_substitute__prefers_overrides():
    text = "params: {pe: {x: 14}, twice: $pe.x * 2, pair: 1}\nv: {a: $pe.x, b: $twice, c: $pair}\n"
    assert values(text, {"pe.x": "32", "pair": "[2, $pe.x]"}) == {"a": "32", "b": "64", "c": ["2", "32"]}


@pytest.mark.parametrize(
    ("params", "value", "message"),
    [
        ("{x: 1}", "$y", "f.yaml:2:8: a: parameter $y is not defined; define it under `params`"),
        ("{pe: {x: 1}}", "$pe.z", "parameter $pe.z is not defined; did you mean 'pe.x'?"),
        ("{pe: {x: 1, y: 2}}", "$pe", "$pe is a group of parameters; use one of them: $pe.x, $pe.y"),
        ("{a: $b, b: $c, c: $a}", "1", "f.yaml:1:27: params.c: parameters need each other: $a -> $b -> $c -> $a"),
        ("{a: $a}", "$a", "params.a: parameters need each other: $a -> $a"),
        ("{a: 3}", "$a / 2", "'$a / 2' is 3/2, not a whole number; // divides and rounds down"),
        ("{a: 3}", "$a // (3 - $a)", "divides by zero"),
        ("{a: 3}", "$a +", "a value is missing in '$a +'"),
        ("{a: 3}", "$a * * 2", "'*' is not expected there in '$a * * 2'"),
        ("{a: 3}", "$a 2", "'2' is not expected there in '$a 2'"),
        ("{a: 3}", "($a", "a ) is missing in '($a'"),
        ("{a: 3}", "$a * 1.5", "cannot read '1.5' in '$a * 1.5'; arithmetic has whole numbers"),
        ("{a: 3}", "$a KiB", "cannot read 'KiB' in '$a KiB'"),
        ("{a: 3}", "$a.", "cannot read '.' in '$a.'"),
        ("{a: 8 KiB}", "$a * 2", "$a is '8 KiB'; arithmetic needs whole numbers"),
        ("{a: [1, 2]}", "$a * 2", "$a is a list; arithmetic needs whole numbers"),
        ("{a: [1, [2]]}", "$a", "a parameter is one value or a list of single values"),
        ("{a: 3}", "$a * " + "9" * 400, "the result is too large"),
        ("{a: 3}", "(" * 80 + "$a" + ")" * 80, "too many parentheses"),
        ("{a-b: 3}", "1", "params: 'a-b' cannot name a parameter; use letters, digits and _"),
        ("[a]", "1", "params: must be a mapping of names to values"),
        ("{a: 1, b: $nothing}", "1", "params.b: parameter $nothing is not defined"),
    ],
)
def test_substitute__refuses(params, value, message):
    found = refusals(f'params: {params}\nv: {{a: "{value}"}}\n')
    assert any(message in complaint for complaint in found)
    assert len(found) == 1


def test_substitute__stops_at_explosions():
    chain = "\n".join(f"  a{i}: $a{i + 1} * $a{i + 1}" for i in range(60))
    assert any(
        "the result is too large" in complaint for complaint in refusals(f"params:\n{chain}\n  a60: 10\nv: {{}}\n")
    )
    chain = "\n".join(f"  a{i}: $a{i + 1}" for i in range(3000))
    found = refusals(f"params:\n{chain}\n  a3000: 1\nv: {{}}\n")
    assert "more than 100 parameters refer to each other" in found[0]


def test_values__name_the_parameter_they_came_from():
    problems = Problems()
    root = substitute(compose("params: {size: 3}\nv: {a: $size, b: $size}\n"), {"size": "1 kib"}, problems)
    v = Fields(root.entries["v"], problems, dict.fromkeys(("a", "b"), Key(fields.positive_int, "")))
    assert v.value("a", 7) == 7
    assert str(problems.found[0]) == "f.yaml:2:8: a: expected a whole number, got '1 kib' ($size from --set)"


def test_check_overrides__knows_the_names_of_all_files(tmp_path):
    (tmp_path / "a.yaml").write_text("params: {pe: {x: 1}, n: 2}\nworkload: {}\n")
    (tmp_path / "b.yaml").write_text("mapping: {}\n")
    (tmp_path / "c.yaml").write_text("params: [\n")
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml", "absent.yaml")]
    assert parameter_names(paths[0]) == {"pe.x", "n"}
    check_overrides({"pe.x": "2", "n": "3"}, paths)
    check_overrides({}, [])
    with pytest.raises(InputError, match=r"^banana: no file defines this parameter; parameters: n, pe\.x"):
        check_overrides({"banana": "2"}, paths)
    with pytest.raises(InputError, match="the files have no `params`"):
        check_overrides({"banana": "2"}, paths[1:])


@pytest.mark.parametrize(
    ("load", "source", "override", "message"),
    [
        (load_architecture, "eyeriss", "gbl", r"eyeriss\.yaml:\d+:\d+: gbl: this .*; did you mean 'glb'\?"),
        (load_workload, "resnet50", "btach", r"resnet50\.yaml:\d+:\d+: btach: this .*; did you mean 'batch'\?"),
        (load_workload, {"workload": {"name": "g", "gemm": {"M": 1}}}, "m", "m: this .*; the files have no `params`"),
    ],
)
def test_overrides__of_one_file_are_of_its_own_parameters(load, source, override, message):
    with pytest.raises(InputError, match=message):
        load(source, {override: 8})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload: {}\nmapping: {}\n", "f.yaml:2:1: one file holds one of"),
        ("mapping: {}\n", "f.yaml:1:1: this file holds: mapping; expected: workload"),
        ("worklaod: {}\n", "f.yaml:1:1: unknown key 'worklaod'; did you mean 'workload'?"),
        ("params: {}\n", "f.yaml:1:1: no key says what the file is; expected workload"),
        (
            "- 1\n",
            "keys architecture, gpu, system, workload, decoder, mapping, layout, constraints, energy_table, sweep, "
            "got a list",
        ),
        ("word\n", "got 'word'"),
    ],
)
def test_open_document__wants_one_top_level_key(tmp_path, text, message):
    (tmp_path / "f.yaml").write_text(text)
    problems = Problems()
    assert open_document(tmp_path / "f.yaml", "workload", None, problems) is None
    assert message in str(problems.found[0])


def test_fields__collect_every_problem_sorted_by_place():
    problems = Problems()
    root = compose("v:\n  b: x\n  a: -1\n  bandwith: 3\n  c: [1, q, 0]\n  d: yes\n")
    readers = {"name": fields.name, "a": fields.count, "b": fields.positive_int, "bandwidth": fields.positive_int}
    readers |= {"c": fields.list_of(fields.positive_int), "d": fields.boolean}
    v = Fields(root.entries["v"], problems, {key: Key(read, "what it is") for key, read in readers.items()})
    assert [v.value(key, 0) for key in ("name", "a", "b", "c", "d")] == [0, 0, 0, [1], 0]
    with pytest.raises(InputError) as error:
        problems.result(1)
    assert str(error.value).splitlines() == [
        "f.yaml:2:3: 'name' is missing: what it is",
        "f.yaml:2:6: b: expected a whole number, got 'x'",
        "f.yaml:3:6: a: must be at least 0, got -1",
        "f.yaml:4:3: bandwith: unknown key; did you mean 'bandwidth'?",
        "f.yaml:5:10: c[1]: expected a whole number, got 'q'",
        "f.yaml:5:13: c[2]: must be at least 1, got 0",
        "f.yaml:6:6: d: expected true or false, got 'yes'",
    ]


@pytest.mark.parametrize("text", ["1e5", "16.0", "0x10", "1_0", "", "9" * 30, "9" * 5000, "1 2"])
def test_positive_int__takes_plain_integers_only(text):
    problems = Problems()
    assert fields.positive_int(ScalarNode(Mark("f", 1, 1), "a", text), problems) is None
    assert len(problems) == 1


EXPRESSIONS = st.recursive(
    st.integers(0, 9), lambda inner: st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner), max_leaves=12
)


def written(tree) -> str:
    return str(tree) if isinstance(tree, int) else f"({written(tree[1])} {tree[0]} {written(tree[2])})"


@given(EXPRESSIONS)
def test_arithmetic__equals_that_of_python(tree):
    found = values(f'params: {{zero: 0}}\nv: {{a: "$zero + {written(tree)}"}}\n')
    assert found == {"a": str(eval(written(tree)))}


@given(st.lists(st.tuples(st.sampled_from(["+", "-", "*", "//"]), st.integers(1, 30)), min_size=1, max_size=7))
@example([("-", 8), ("-", 3)])
@example([("-", 9), ("//", 2)])
def test_arithmetic__without_parentheses_is_that_of_python(steps):
    text = "7" + "".join(f" {sign} {number}" for sign, number in steps)
    assert values(f'params: {{zero: 0}}\nv: {{a: "$zero + {text}"}}\n') == {"a": str(eval(text))}
