"""Reports are written anew: what their blocks of code print stands below them."""

from __future__ import annotations

import pytest

from validation.__main__ import main
from validation.write_reports import write_reports

PAGE = """# Report: one
Text.

```sh
{command}
```
```text
old
```

```python
answer = 42
print(answer)
```
```text
41
```

<!-- no-run -->
```python
print("not run")
```
```text
kept
```
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one.md").write_text(PAGE.format(command="echo new; echo $ACCELSIM_SHARED"))
    return tmp_path


def test_write_reports__replaces_what_code_and_commands_print(folder, monkeypatch, capsys):
    monkeypatch.setenv("ACCELSIM_SHARED", "records")
    assert write_reports(["one"], folder) == 0
    text = (folder / "one.md").read_text()
    assert "```text\nnew\nrecords\n```" in text
    assert "```text\n42\n```" in text
    assert "```text\nkept\n```" in text
    assert capsys.readouterr().out == f"Written: {folder / 'one.md'}\n"


def test_write_reports__keeps_what_a_command_that_fails_printed(folder, capsys):
    (folder / "one.md").write_text(PAGE.format(command="echo no such file >&2; false && true; exit 2"))
    assert write_reports((), folder) == 2
    text = (folder / "one.md").read_text()
    assert "```text\nold\n```" in text
    assert "```text\n42\n```" in text
    assert "no such file" in capsys.readouterr().err


def test_main__names_the_reports_that_there_are(capsys):
    assert main(["--reports", "eyeris"]) == 2
    assert "no report eyeris; did you mean 'eyeriss'?" in capsys.readouterr().err
