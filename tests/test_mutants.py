"""Mistakes that are planted to try the tests: each can still be planted, and its tests exist."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tests.mutant import Mutant
from tests.planted import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants__stand_where_they_say_and_name_tests(mutant):
    text = (REPOSITORY / "accelsim" / mutant.file).read_text()
    assert mutant.planted(text) != text
    for test in mutant.tests.split():
        file, _, name = test.partition("::")
        code = (REPOSITORY / "tests" / file).read_text()
        assert not name or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", code, re.M)


def test_mutants__have_different_names():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize("text", ["", "x = 1\nx = 1\n"])
def test_mutants__whose_text_is_not_there_once_are_refused(text):
    with pytest.raises(ValueError, match="not once"):
        Mutant("m", "f.py", "x = 1\n", "x = 2\n", "").planted(text)
