import pytest

pytest.register_assert_rewrite("tests.parity.checkout")  # its comparisons fail with what differs
