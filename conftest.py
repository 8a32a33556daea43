"""Lets failing assertions of tests/support show their values, as those of the tests do: before anything imports it."""

from __future__ import annotations

import pytest

collect_ignore = ["tests/support/typed_script.py"]  # type checkers read it, nothing runs it

pytest.register_assert_rewrite("tests.support")
