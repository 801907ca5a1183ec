"""Each real log of the data folder against its expected rows, read off the file by eye or cut out by line number.

Not by our patterns: `cut` takes lines by number and columns by position. The folder's MANIFEST.md says what is peculiar
about each file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.suites import data_folder
from shardlib.weights import sources
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample
from shardlib.weights.sources import Source

_DATA = data_folder()
LOGS = _DATA.parent / "logs" if _DATA is not None else Path("no logs here")

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the real logs are not here; SHARDLIB_DATA says where")

Rows = dict[str, float]


def parsed(name: str) -> tuple[list[Found], Unread]:
    unread = Unread(source=name)
    found = list(sources.parse(Source(path=LOGS / name, is_run=False, modified=0.0), unread))
    return found, unread


def rows(found: Found) -> Rows:
    return {sample.id: sample.seconds for sample in found.samples}


def cut(name: str, first: int, last: int, encoding: str = "utf-8") -> Rows:
    """Adds up lines by number: seconds to the first `s`, the phase in the next nine columns, then the id."""
    text = (LOGS / name).read_bytes().decode(encoding, "ignore")
    phases: dict[tuple[str, str], float] = {}
    for line in text.split("\n")[first - 1 : last]:
        seconds, rest = line.rstrip("\r").split("s ", 1)
        phases[rest[9:], rest[:9]] = max(float(seconds), phases.get((rest[9:], rest[:9]), 0.0))
    total: Rows = {}
    for (node_id, _), value in phases.items():
        total[node_id] = round(total.get(node_id, 0.0) + value, 6)
    return total


def flagged(found: Found, flag: str) -> list[str]:
    return [sample.id for sample in found.samples if flag in sample.flags]


STATE = "tests/unit/core/test_agent_state.py"
MEMORY = "tests/integration/memory/test_memory_pruning_mus.py::TestMUSBasedMemoryPruning"
ROLE = "tests/unit/dspy_programs/test_role_specific_summary_generator.py::TestRoleSpecificSummaryGeneratorFallback"
SYNTHESIZER = "tests/unit/dspy_programs/test_rag_context_synthesizer.py::TestRAGContextSynthesizer"
CASE = "test.py::CustomTestCase"
SHOT = "tests/ace/tui/visual/test_ace_png_snapshots_prompt_highlighting.py"
REDUCE, SEND = "tests/api/test_allreduce.py::test_allreduce", "tests/api/test_send_recv.py::"
SLOW: Rows = {
    "test_some_are_slow.py::test_funcslow2": 0.30,
    "test_some_are_slow.py::test_funcslow1": 0.20,
    "test_some_are_slow.py::test_funcfast": 0.10,
}
HOSTILE = [
    *("test_eval[3 5-8]", "test_eval[2 4-6]", "test_eval[6 9-42]", r"test_unicode_in_param_id[unicode in id \u3044]"),
    *("test_hostile[a::b]", "test_hostile[a[0]]", "test_hostile[[]", "test_hostile[]]", "test_hostile[PASSED]"),
    *("test_hostile[x - y]", "test_hostile[  lead]", r"test_hostile[tab\there]", r"test_hostile[new\nline]"),
    *("test_hostile[]", "test_hostile[1.00s call     tests/test_x.py::test_y]", r"test_hostile[back\\slash]"),
    *("test_hostile[per%cent]", "test_hostile[a/b.py::c]", r"test_hostile[\x1b[31mred]"),
    *("test_hello[ingrid]", "test_hello[henk]"),
]
HOSTILE_ROWS: Rows = {f"test_ids.py::{name}": 0.01 for name in HOSTILE}

EXPECTED: dict[str, list[Rows]] = {
    "03_windows_posix_ids_default_min.txt": [
        {
            f"{STATE}::test_agent_state": 27.15,
            f"{MEMORY}::test_a_l1_mus_calculation": 4.33,
            f"{MEMORY}::test_z_memory_deletion": 1.56,
            f"{MEMORY}::test_b_l2_mus_calculation": 1.52,
            "tests/integration/memory/test_memory_utility_score.py::TestMemoryUtilityScore"
            "::test_memory_utility_score_calculation": 0.75,
            "tests/integration/test_hierarchical_memory_persistence.py::TestHierarchicalMemoryPersistence"
            "::test_hierarchical_memory_persistence": 0.65,
            "tests/integration/test_memory_usage_tracking.py::TestMemoryUsageTracking::test_memory_usage_tracking": 0.14,
            "tests/integration/test_memory_usage_tracking.py::TestMemoryUsageTracking::test_retrieve_memory_ids": 0.09,
            f"{ROLE}::test_l1_template_fallback_extracts_keywords": 0.03,
            f"{SYNTHESIZER}::test_synthesize_error_handling": 0.02,
            "tests/unit/dspy/test_dspy_role_adherence.py::test_role_prefix_adherence": 0.01,
            f"{SYNTHESIZER}::test_clean_output_with_bracket_prefix": 0.01,
        }
    ],
    "10_handwritten_top10_no_nodeid.txt": [],
    "11_truncated_log_no_block.txt": [],
    "20_pytest_html_duplicates.txt": [
        {
            "tests/test_08_idproofing_no.py::TestClass::test02_idproofing[test1]": 132.21,
            "tests/test_09_idproofing_en.py::TestClass::test02_idproofing[test1]": 125.02,
            "tests/test_02_scim.py::TestClass::test04_groups[test1]": 97.22,
            "tests/test_13_user_admin_no.py::TestClass::test02_user_admin[test1]": 92.76,
            "tests/test_02_scim.py::TestClass::test05_patch[test1]": 76.77,
            "tests/test_06_keyregistration_no.py::TestClass::test01_frontend[test1]": 76.0,
            "tests/test_02_scim.py::TestClass::test03_delete_insert[test1]": 72.49,
        }
    ],
    "21_bamboo_ci_prefix_xdist.txt": [
        {
            "models/test_stack_template.py::TestStackIntegration"
            "::test_render_create_from_snapshot_with_validation": 0.04,
            "models/test_stack_controller.py::TestStackController::test_delete_a_new_stack_during_update": 0.01,
        }
    ],
    "22_github_actions_timestamps_40.txt": [
        {
            "tests/test_upgrade.py::test_real_serve_auto_upgrade_reexecs_and_serves_new_build": 26.34,
            "tests/test_qa.py::test_scripted_agent_completes_every_flow": 6.99,
            "tests/test_branch_cleanup.py::test_large_history_uses_one_remote_snapshot_per_repository_per_tick": 5.82,
            "tests/test_remote_worker.py::test_replacement_daemon_enforces_deadline_during_controller_outage": 5.31,
            "tests/test_rebase.py::test_merge_queue_merges_eight_prs_each_rebased_once": 5.21,
            "tests/test_remote_worker.py::test_replacement_daemon_stops_execution_after_local_deadline": 5.11,
            "tests/test_remote_worker.py::test_worker_renews_short_lease_during_setup_and_check": 5.10,
            "tests/test_qa.py::test_a_broken_flow_names_the_step_and_exits_non_zero": 4.60,
            "tests/test_remote_worker.py::test_remote_lifecycle_over_served_http": 4.51,
            "tests/test_onboard.py::test_onboard_this_repository_preserves_documented_publishing_ci_helper": 3.00,
            "tests/test_retro_verdict.py::test_close_with_followups_files_a_draft_in_the_next_phase": 2.18,
        }
    ],
    "24_old_pytest5_hvd_gpu_blank_after_rule.txt": [
        {
            f"{CASE}::test_example_2_RN50_Gradient_Tape_HVD_AMP_FP16_All_Reduce": 17.79,
            f"{CASE}::test_example_1_RN50_Gradient_Tape_HVD_AMP": 17.55,
            f"{CASE}::test_example_0_RN50_Gradient_Tape_HVD": 16.00,
            f"{CASE}::test_example_5_keras_Sequential_CTL_Gradient_Tape_HVD_AMP_FP16_All_Reduce": 10.49,
            f"{CASE}::test_example_4_keras_Sequential_CTL_Gradient_Tape_HVD_AMP": 10.42,
            f"{CASE}::test_example_3_keras_Sequential_CTL_Gradient_Tape_HVD": 8.62,
            f"{CASE}::test_example_8_keras_fit_compile_Gradient_Tape_HVD_AMP_FP16_All_Reduce": 6.40,
            f"{CASE}::test_example_7_keras_fit_compile_Gradient_Tape_HVD_AMP": 6.39,
            f"{CASE}::test_example_6_keras_fit_compile_Gradient_Tape_HVD": 6.33,
        }
    ],
    "27_hf_timeouts_600s.txt": [
        {
            "tests/test_modeling_gptj.py::GPTJModelTest::test_model_from_pretrained": 600.02,
            "tests/test_modeling_gptj.py::GPTJModelTest::test_batch_generation": 600.01,
            "tests/test_modeling_gptj.py::GPTJModelLanguageGenerationTest::test_gptj_sample": 600.0,
            "tests/test_modeling_gpt_neo.py::GPTNeoModelLanguageGenerationTest::test_batch_generation": 284.58,
            "tests/test_modeling_fsmt.py::FSMTModelIntegrationTests::test_inference_no_head": 80.1,
            "tests/test_modeling_fsmt.py::FSMTModelIntegrationTests::test_translation_direct_1_ru_en": 78.26,
            "tests/test_modeling_fsmt.py::FSMTModelIntegrationTests::test_translation_direct_2_en_de": 72.04,
        }
    ],
    "29_pyfluent_305s_setup.txt": [
        {
            "tests/test_events_manager.py::test_timestep_ended_sync_event": 305.12,
            "tests/expressions/test_fluent_smoke.py::test_expression_builder_area_ave_on_static_mixer": 305.08,
            "tests/parametric/test_parametric_workflow.py::test_parameters_list_function": 303.45,
            "tests/test_data_model_cache.py::test_get_cached_values_in_command_arguments": 293.55,
            "tests/test_fluent_session.py::test_exit_fluent_when_connected_to_running_fluent": 112.61,
        }
    ],
    "31_all_hidden.txt": [],
    "33_two_runs_plugin_summary_before_block.txt": [
        {
            "tests/unit_min_deps/test_ptc.py::test_static_includes_ptc": 44.91,
            "tests/unit_min_deps/test_ptc.py::test_ptc_invariants_scanner": 0.21,
            "tests/unit_min_deps/test_ptc.py::test_ptc_plan_output_stable": 0.18,
            "tests/unit_min_deps/test_ptc.py::test_execute_ssot_ptc_integration": 0.12,
            "tests/unit_min_deps/test_ptc_write_contract.py::TestPTCWriteContract"
            "::test_tool_registry_exists_and_must_route_via_write_gateway": 0.07,
            "tests/unit_min_deps/test_ptc.py::test_builtin_repo_rg_tool": 0.02,
            "tests/unit_min_deps/test_ptc_write_contract.py::TestPTCWriteContract"
            "::test_l2_execution_tools_do_not_expose_raw_write_primitives": 0.01,
        }
    ],
    "36_params_spaces_escaped_dash.txt": [
        {
            "tests/ace/tui/visual/test_ace_png_snapshots_agents_retry_e2e.py"
            "::test_real_fakey_running_fallback_png_snapshot": 31.74,
            f"{SHOT}::test_prompt_bullet_highlight_solo_png_snapshot[textual-dark-prompt_bullet_highlight_solo_dark_120x40"
            r"-ACE prompt input \u2014 bullet-dash highlighting, dark theme]": 11.03,
            f"{SHOT}::test_prompt_codeblock_highlight_solo_png_snapshot[textual-light-prompt_codeblock_highlight_solo_light"
            r"_120x40-ACE prompt input \u2014 code highlighting, light theme]": 9.11,
            f"{SHOT}::test_prompt_bullet_highlight_solo_png_snapshot[textual-light-prompt_bullet_highlight_solo_light_120x40"
            r"-ACE prompt input \u2014 bullet-dash highlighting, light theme]": 9.01,
            f"{SHOT}::test_prompt_misspelling_highlight_png_snapshot[textual-dark-prompt_misspelling_highlight_dark_120x40"
            r"-ACE prompt input \u2014 sticky misspelling highlighting, dark theme]": 9.01,
            f"{SHOT}::test_prompt_xprompt_highlight_solo_light_png_snapshot": 8.84,
        }
    ],
    "38_numba_mpi_enum_ids.txt": [
        {
            f"{REDUCE}[float-Operator.SUM-sum-jit_allreduce]": 0.79,
            f"{REDUCE}[int-Operator.SUM-sum-jit_allreduce]": 0.79,
            f"{SEND}test_send_0d_arrays[int-send-recv0]": 0.57,
            f"{SEND}test_send_recv[int-True-send-recv0]": 0.50,
            f"{REDUCE}[int-Operator.SUM-sum-allreduce]": 0.49,
            f"{SEND}test_send_0d_arrays[complex-send-recv0]": 0.48,
            f"{SEND}test_send_recv_noncontiguous[int-send-recv0]": 0.43,
            f"{SEND}test_send_0d_arrays[float-send-recv0]": 0.41,
            f"{SEND}test_send_recv_noncontiguous[float-send-recv0]": 0.39,
            f"{SEND}test_send_recv[complex64-True-send-recv0]": 0.38,
        }
    ],
    "40_bliss_gpu_rows_only.txt": [
        {
            "tests/test_predict.py::TestPredict::test_predict_decals_multiple_bricks": 343.11,
            "tests/test_predict.py::TestPredict::test_predict_decals": 190.70,
            "tests/test_predict.py::TestPredict::test_predict_sdss_multiple_rcfs": 100.79,
            "tests/test_predict.py::TestPredict::test_predict_sdss": 50.48,
            "tests/test_predict.py::TestPredict::test_predict_sdss_single_band": 50.28,
            "tests/test_metrics.py::TestMetrics::test_photo_self_agreement": 32.87,
        }
    ],
    "42_markdown_line_ids_ci_indent.txt": [{"README.md::line 6": 34.72, "README.md::line 196": 14.13}],
    "60_pytest9_durations0.txt": [SLOW],
    "62_hostile_param_ids_q.txt": [HOSTILE_ROWS],
    "63_ansi_color_yes.txt": [{**SLOW, **HOSTILE_ROWS}],
    "65_rerunfailures.txt": [{"test_flaky.py::test_example": 0.15, "test_flaky.py::test_ok": 0.02}],
    "66_timeout_signal_teardown.txt": [
        {
            "test_timeout.py::test_timeout1": 2.0,
            "test_timeout.py::test_timeout2": 1.0,
            "test_timeout.py::test_fast": 0.05,
            "test_timeout.py::test_after": 0.05,
        }
    ],
    "67_timeout_thread_os_exit_no_block.txt": [],
    "68_subtests_pytest9.txt": [{"test_sub.py::T::test_foo": 0.21, "test_sub.py::test_contains_docs": 0.15}],
    "70_xdist_crash.txt": [{"test_crash.py::test_ok": 0.05, "test_crash.py::test_ok2": 0.05}],
    "71_sigterm_truncated.txt": [],
    "73_three_runs_one_log.txt": [SLOW, SLOW, SLOW],
    "75_no_tests_rc5.txt": [],
}

BY_LINES = {
    "01_utf16le_bom_crlf_windows_durations_min.txt": ("utf-16-le", [(383, 1373)]),
    "05_quiet_no_summary_rule_40.txt": ("utf-8", None),
    "15_four_blocks_appended_old_pytest.txt": ("utf-8", [(10, 69), (80, 139), (463, 520), (530, 539)]),
    "77_more_itertools_xdist4_v.txt": ("utf-8", [(10165, 10185)]),
}

ELSEWHERE = {
    "09_markdown_table_phase_report.md.txt",
    "13_junit_2397_cases_xunit2.xml",
    "80_hostile_ids_junit.xml",
    "81_hostile_ids_reportlog.jsonl",
}


def test_every_log_has_its_expected_rows_here() -> None:
    there = {path.name for path in LOGS.iterdir()} - {"MANIFEST.md"}
    assert there == {*EXPECTED, *BY_LINES, *ELSEWHERE}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_small_log_gives_exactly_its_rows(name: str) -> None:
    found, unread = parsed(name)
    assert [rows(each) for each in found] == EXPECTED[name]
    assert unread.places == []


@pytest.mark.parametrize("name", sorted(BY_LINES))
def test_a_large_log_gives_the_rows_between_its_lines(name: str) -> None:
    encoding, blocks = BY_LINES[name]
    if blocks is None:
        lines = (LOGS / name).read_text(encoding).split("\n")
        start = next(number for number, line in enumerate(lines, 1) if "slowest 40 durations" in line)
        blocks = [(start + 1, start + 40)]
    found, unread = parsed(name)
    assert [rows(each) for each in found] == [cut(name, first, last, encoding) for first, last in blocks]
    assert unread.places == []


def test_the_numbers_that_pytest_itself_printed_agree() -> None:
    found, unread = parsed("01_utf16le_bom_crlf_windows_durations_min.txt")
    assert (unread.seen["rows"], unread.hidden, len(found[0].samples)) == (991, 13599, 811)
    assert parsed("77_more_itertools_xdist4_v.txt")[1].hidden == 10274
    found, _ = parsed("15_four_blocks_appended_old_pytest.txt")
    for run, seconds in zip(found, (263.63, 265.30, 256.78, 42.69), strict=True):  # the sessions' own totals
        assert sum(rows(run).values()) <= seconds
        assert run.seal == f"{seconds:.2f}"


def test_a_table_in_markdown_gives_its_rows() -> None:
    lines = (LOGS / "09_markdown_table_phase_report.md.txt").read_text("utf-8").split("\n")
    expected = {}
    for line in lines[13 - 1 : 112]:
        _, rank, seconds, phase, rest = line.split("|", 4)
        assert (phase, 1 <= int(rank) <= 100) == (" call ", True)
        expected[rest.strip(" |`")] = float(seconds)
    found, unread = parsed("09_markdown_table_phase_report.md.txt")
    assert [rows(each) for each in found] == [expected]
    assert (len(expected), unread.total) == (100, 0)


def test_ids_are_the_same_in_every_form_of_one_run() -> None:
    reports, unread = parsed("81_hostile_ids_reportlog.jsonl")
    cases, unread_cases = parsed("80_hostile_ids_junit.xml")
    assert set(rows(reports[0])) == set(rows(cases[0])) == set(HOSTILE_ROWS)
    assert unread.total == unread_cases.total == 0
    for node_id, seconds in rows(reports[0]).items():
        assert rows(cases[0])[node_id] == pytest.approx(seconds, abs=0.005)


def test_a_report_log_adds_exact_phases() -> None:
    expected: Rows = {}
    times = []
    for line in (LOGS / "81_hostile_ids_reportlog.jsonl").read_text("utf-8").splitlines():
        body = json.loads(line)
        if body["$report_type"] == "TestReport":
            expected[body["nodeid"]] = expected.get(body["nodeid"], 0.0) + body["duration"]
            times.append(body["start"])
    (found,), _ = parsed("81_hostile_ids_reportlog.jsonl")
    assert rows(found) == pytest.approx(expected, abs=1e-6)
    assert found.when == min(times)
    assert flagged(found, "failed") == ["test_ids.py::test_eval[6 9-42]"]


def test_junit_cases_are_all_there_with_their_outcomes() -> None:
    text = (LOGS / "13_junit_2397_cases_xunit2.xml").read_text("utf-8")
    (found,), unread = parsed("13_junit_2397_cases_xunit2.xml")
    assert unread.total == 0
    assert len(found.samples) == text.count("<testcase ") == 668
    assert sum(rows(found).values()) == pytest.approx(186.083)
    outcomes = [sample.outcome for sample in found.samples]
    assert [outcomes.count(word) for word in ("failed", "error", "skipped")] == [
        text.count("<failure"),
        text.count("<error "),
        text.count("<skipped"),
    ]
    assert rows(found)["tests/test_gpt_client_cost.py::test_cost_breakdown"] == 0.006
    in_class = [node_id for node_id in rows(found) if node_id.startswith("tests/test_api_auth.py::TestWhoami::")]
    assert len(in_class) == text.count('classname="tests.test_api_auth.TestWhoami"')
    assert found.when == pytest.approx(1756937297.733096)  # 2025-09-03T18:08:17.733096-04:00


@pytest.mark.parametrize(
    ("name", "flag", "expected"),
    [
        ("20_pytest_html_duplicates.txt", "retried", ["06_keyregistration_no.py::TestClass::test01_frontend[test1]"]),
        ("27_hf_timeouts_600s.txt", "timed_out", ["from_pretrained", "Test::test_batch_generation", "gptj_sample"]),
        ("29_pyfluent_305s_setup.txt", "timed_out", []),
        ("01_utf16le_bom_crlf_windows_durations_min.txt", "timed_out", []),
        ("65_rerunfailures.txt", "retried", ["test_flaky.py::test_example"]),
        ("68_subtests_pytest9.txt", "retried", []),
        ("68_subtests_pytest9.txt", "failed", ["test_contains_docs"]),
        ("66_timeout_signal_teardown.txt", "timed_out", ["test_timeout2"]),
        ("66_timeout_signal_teardown.txt", "failed", ["test_timeout1", "test_timeout2"]),
        ("62_hostile_param_ids_q.txt", "failed", ["test_eval[6 9-42]"]),
        ("62_hostile_param_ids_q.txt", "truncated", []),
        ("63_ansi_color_yes.txt", "failed", ["test_eval[6 9-42]"]),
        ("60_pytest9_durations0.txt", "truncated", []),
        ("33_two_runs_plugin_summary_before_block.txt", "truncated", []),
    ],
)
def test_flags_say_which_seconds_are_no_plain_measurement(name: str, flag: str, expected: Sequence[str]) -> None:
    (found,), _ = parsed(name)
    ids = flagged(found, flag)
    assert len(ids) == len(expected)
    assert all(node_id.endswith(end) for node_id, end in zip(ids, expected, strict=True))


@pytest.mark.parametrize("name", ["05_quiet_no_summary_rule_40.txt", "38_numba_mpi_enum_ids.txt"])
def test_a_table_of_the_slowest_does_not_hold_all_of_their_time(name: str) -> None:
    (found,), _ = parsed(name)
    assert len(flagged(found, "truncated")) == len(found.samples)


def test_workers_and_outcomes_come_from_the_progress_lines() -> None:
    (found,), _ = parsed("70_xdist_crash.txt")
    assert {(s.id, s.outcome, s.worker) for s in found.samples} == {
        ("test_crash.py::test_ok", "passed", "gw1"),
        ("test_crash.py::test_ok2", "passed", "gw1"),
    }
    (found,), _ = parsed("77_more_itertools_xdist4_v.txt")
    assert {sample.outcome for sample in found.samples} == {"passed"}
    assert {sample.worker for sample in found.samples} == {"gw0", "gw1", "gw2", "gw3"}


def test_a_timestamp_says_when_and_a_prefix_says_which_pod() -> None:
    (found,), _ = parsed("22_github_actions_timestamps_40.txt")
    assert found.when == pytest.approx(1789139109.310494)  # 2026-09-11T15:05:09.3104947Z
    (found,), _ = parsed("21_bamboo_ci_prefix_xdist.txt")
    assert {sample.pod for sample in found.samples} == {"build"}


def test_no_row_is_without_a_node_id() -> None:
    samples: list[Sample] = []
    for path in sorted(LOGS.iterdir()):
        samples += [sample for found in parsed(path.name)[0] for sample in found.samples]
    assert samples
    assert all("::" in sample.id for sample in samples)
