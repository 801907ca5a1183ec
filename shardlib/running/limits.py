"""How long the runner waits for a test before it kills the worker. Pure."""

from __future__ import annotations

from shardlib.model import Group, PlannedTest, WeightSource
from shardlib.settings import Settings


def test_limit_seconds(test: PlannedTest, group: Group, settings: Settings) -> float:
    """Returns the seconds after which a running test counts as hung.

    A test with pytest-timeout's limit gets that and a margin, so that pytest-timeout acts first and tells where it
    hung. A known weight gives `timeout_factor` times it, with the file's setup and a worker's start on top, at least
    `min_timeout_seconds`; an estimate can be wrong by any factor, so it gives `max_test_seconds`.
    """
    if test.timeout_seconds is not None and test.timeout_seconds > 0:
        return test.timeout_seconds + settings.timeout_marker_margin_seconds
    if test.source is not WeightSource.KNOWN:
        return settings.max_test_seconds
    expected = settings.timeout_factor * test.weight_ms / 1000
    return max(settings.min_timeout_seconds, expected + group.setup_ms / 1000 + settings.startup_seconds)
