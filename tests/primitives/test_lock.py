"""What a lock object is without a lease."""

import gc

import pytest

import fencelock


@pytest.mark.parametrize("kind", [fencelock.Lock, fencelock.AsyncLock, fencelock.LockAll])
def test_a_constructor_that_fails_leaves_no_trace(kind: type) -> None:
    """An error in a finalizer would be shown to somebody who can do nothing about it."""
    complaints: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", complaints.append)
        with pytest.raises(TypeError):
            kind("too few arguments")
        object.__new__(kind)
        gc.collect()
    assert complaints == []
