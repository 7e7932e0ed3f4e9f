"""How functions are compiled."""

from __future__ import annotations

import os

import numpy as np
import pytest

from accelsim.model.jit import jit


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled then")
def test_kernel__is_compiled_where_no_folder_can_keep_it(monkeypatch):
    """As on a read-only file system."""
    from numba.core import caching

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])

    def double(values):
        values[0] *= 2

    values = np.array([21])
    jit(double)(values)
    assert values.tolist() == [42]
