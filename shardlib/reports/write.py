"""Writes a run's reports into its folder."""

from __future__ import annotations

from pathlib import Path

from shardlib.plan import Plan
from shardlib.reports import durations, html, junit, run, summary
from shardlib.reports.measure import Measures
from shardlib.runfolder import RunFolder
from shardlib.verdict import Verdict


def write_reports(folder: RunFolder, plan: Plan, verdict: Verdict, measures: Measures) -> list[Path]:
    """Writes report/junit.xml, report.html, summary.md, run.json and durations.json, each at once; returns their paths."""
    texts = {
        "junit.xml": junit.junit(verdict, measures.makespan_seconds),
        "report.html": html.page(plan, verdict, measures),
        "summary.md": summary.summary(plan, verdict, measures),
        "durations.json": durations.dumps(durations.durations(verdict, measures.setups)),
        "run.json": run.dumps(run.run_document(plan, verdict, measures)),
    }
    return [folder.write_report(name, text) for name, text in texts.items()]
