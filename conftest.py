"""Lets failing assertions of tests/support show their values, as those of the tests do: before anything imports it."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.support")
