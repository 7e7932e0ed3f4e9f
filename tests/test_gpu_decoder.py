"""Files of decoders: what they say, and their mistakes at their places."""

from __future__ import annotations

import pytest

from accelsim.cli import main as cli
from accelsim.gpu.decoder import load_decoder
from accelsim.inputs.errors import AccelsimError, InputError

FILE = """decoder:
  name: mine
  layers: 2
  hidden: 64
  heads: 8
  ffn: 128
  vocabulary: 100
"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("heads: 8", "heads: 7", ":5:10: heads: 7 heads do not divide hidden, 64; write head_size"),
        ("heads: 8", "heads: 8\n  kv_heads: 3", ":6:13: kv_heads: 3 key-value heads do not divide 8"),
        ("ffn: 128", "fnn: 128", ":6:3: fnn: unknown key; did you mean 'ffn'?"),
        ("  ffn: 128\n", "", "'ffn' is missing"),
        ("layers: 2", "layers: 0", ":3:11: layers: must be at least 1, got 0"),
        ("ffn: 128", "experts: {count: 4, top: 5, inter: 32}", ":6:28: experts.top: a token goes to 5 of 4"),
        ("ffn: 128", "ffn: 128\n  experts: {count: 4, top: 1, inter: 32}", ":6:8: ffn: no layer has an 'ffn'"),
        ("ffn: 128", "experts: {count: 4, top: 1, inter: 8, dense_layers: 3}", "3 dense_layers, of 2 layers"),
        ("ffn: 128", "ffn: 128\n  sliding: {window: 8}", ":7:12: sliding: 'layers' is missing"),
        ("ffn: 128", "ffn: 128\n  sliding: {window: 8, layers: 3}", ":7:12: sliding: more layers than the 2"),
        ("ffn: 128", "ffn: 128\n  latent: true\n  sliding: {window: 8, layers: 1}", ":8:12: sliding: latent attention"),
    ],
)
def test_file__its_mistakes_have_places(old, new, what, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as raised:
        load_decoder(path)
    assert what in str(raised.value)


def test_file__of_a_user_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    assert load_decoder(path).kv_heads == 8
    assert cli.main(["check", str(path)]) == 0
    with pytest.raises(AccelsimError, match="no such file"):
        load_decoder("nothing_like_it")
