"""The comparison of weights: its own rules, and that every part of it runs."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import weights, weights_histories, weights_review, weights_synthetic
from benchmarks.suites import data_folder
from shardlib.weights.matrix import BIT

from ..weights.histories import matrix_of


def test_simple_estimators_are_what_their_names_say() -> None:
    matrix = matrix_of({"a::t": [1.0, None, 3.0, 2.0]})
    found = {name: float(estimator(matrix)[0]) for name, estimator in weights.ESTIMATORS.items()}
    assert found["last"] == 2.0
    assert found["mean"] == found["median"] == 2.0
    assert found["EWMA 0.3"] == pytest.approx(0.7 * (0.7 * 1 + 0.3 * 3) + 0.3 * 2)
    assert found["ratchet"] == pytest.approx(max(0.9 * 3.6, 1.2 * 2))
    assert found["P90"] == pytest.approx(2.8)


def test_missing_weight_is_filled_from_the_nearest_relatives() -> None:
    ids = ("f.py::g[1]", "f.py::g[2]", "f.py::h", "e.py::x", "e.py::y")
    raw = np.array([1.0, np.nan, np.nan, 9.0, 11.0])
    assert weights.filled(raw, weights_histories.families(ids)).tolist() == [1.0, 1.0, 1.0, 9.0, 11.0]


def test_perfect_weights_beat_shuffled_ones() -> None:
    rng = np.random.default_rng(1)
    actual = rng.lognormal(1, 1, 300)
    bound = actual.sum() / weights.MACHINES
    assert weights.realised(actual, actual, 3) < 1.02 * max(bound, actual.max())
    assert weights.realised(rng.permutation(actual), actual, 3) > 1.1 * bound


def test_bias_of_a_history_is_that_of_its_total() -> None:
    judged: Any = np.ones(2, dtype=bool)
    scores = [
        weights._score("h", "last", np.array([5.0, 5.0]), np.array(actual), judged, [0.0])
        for actual in ([2.0, 3.0], [7.0, 8.0])
    ]
    assert [score.bias for score in scores] == pytest.approx([1.0, -1 / 3])
    assert weights._merged(scores, by_seconds=True).bias == pytest.approx(0.0)


def test_history_drops_what_was_carried_over_and_snapshots_that_measured_little(tmp_path: Path) -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    document = {
        "snapshots": [{"commit": day, "day": day} for day in days],
        "tests": {"a::t": [1.0, 1.0, 2.0], "b::t": [1.0, 1.0, 1.0], "c::t": [3.0, None, 4.0], "d::short": [0.01] * 3},
    }
    (tmp_path / "h.json.gz").write_bytes(gzip.compress(json.dumps(document).encode("ascii")))
    (history,) = weights_histories.histories(tmp_path)
    assert history.ids == ("a::t", "b::t", "c::t")
    assert len(history.when) == 2
    assert np.isnan(history.seconds[1, 1])
    assert history.seconds[[0, 2], 1].tolist() == [2.0, 4.0]


def test_synthetic_truth_is_what_its_runs_scatter_around() -> None:
    truth = weights_synthetic.draw(1, tests=300, files=30)
    clean = np.where(truth.matrix.flags == 0, truth.matrix.seconds, np.nan)
    plain = ~(truth.suite.moved | truth.suite.flaky | truth.suite.starts_cold) & np.isfinite(clean).any(axis=1)
    ratio = np.nanmean(clean[plain], axis=1) / truth.weight[plain]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.1)
    for flag in ("skipped", "timed_out", "retried", "first"):
        assert (truth.matrix.flags & BIT[flag]).any()
    again = weights_synthetic.draw(1, tests=300, files=30)
    assert np.array_equal(truth.matrix.seconds, again.matrix.seconds, equal_nan=True)


def test_until_cuts_everything_after_a_run() -> None:
    matrix = weights_synthetic.until(weights_synthetic.draw(1, tests=60, files=6).matrix, 5)
    assert len(matrix.runs) == matrix.seconds.shape[1] == 5
    assert int(matrix.pod.max()) < len(matrix.pods) == len(matrix.pod_runs)


def test_rule_row_counts() -> None:
    row = weights_review.RuleRow(rule="x", found=3, flagged=4, real=6)
    assert (row.precision, row.recall) == (0.75, 0.5)


def test_quick_comparison_prints_every_part_and_ours_beats_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDLIB_DATA", str(tmp_path / "none"))
    parser = argparse.ArgumentParser()
    weights.add_arguments(parser)
    assert weights.main(parser.parse_args(["--quick", "--json", str(tmp_path / "figures.json")])) == 0
    printed = capsys.readouterr()
    assert "SHARDLIB_DATA says where" in printed.err
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="ascii"))
    error = {
        name: np.mean([score["weighted_error"] for score in figures["synthetic"] if score["estimator"] == name])
        for name in weights.ESTIMATORS
    }
    assert error["ours"] == min(error.values())
    assert {row["rule"] for row in figures["rules"]} >= {"changed (x3, x0.3)", "skipped as 0"}


@pytest.mark.slow
def test_real_histories_are_predicted() -> None:
    folder = data_folder()
    if folder is None or not (folder / "history").is_dir():
        pytest.skip("the real histories are not here; SHARDLIB_DATA says where they are")
    for history in weights_histories.histories(folder / "history"):
        scores = {score.estimator: score for score in weights.real(history, packings=1, most=3)}
        assert scores["ours"].weighted_error < scores["mean"].weighted_error + 0.02
