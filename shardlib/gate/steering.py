"""Makes the cluster's runs fit a pull request: looks at both, acts, and looks again until there is nothing left to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from shardlib.errors import GateError, InfrastructureError
from shardlib.fields import Fields, short
from shardlib.gate.argo import ArgoServer
from shardlib.gate.following import (
    Action,
    PullState,
    Resume,
    Retag,
    RetryGate,
    StagedRun,
    Submit,
    ended_since,
    follow,
    must_wait,
)
from shardlib.gate.runs import Run, run_name

PATIENCE_SECONDS = 240.0
"""How long a run may take to its gate or to its end; later, the next look does it (a guess: a cold pull of an image)."""

LAG_SECONDS = 5.0  # what GitHub's API may be behind its webhooks (a guess; seconds were seen)
FIRST_PAUSE_SECONDS = 1.0
LATELY = 30  # pull requests that a sweep looks at: more do not change in ten minutes (a guess)
LONGEST_PAUSE_SECONDS = 15.0


class Getter(Protocol):
    """What is needed of `github.GitHub`."""

    def get(self, path: str, **query: str | int) -> object:
        """Returns the value of GitHub's answer."""


@dataclass(frozen=True, kw_only=True)
class Steering:
    """One pull request and the template whose runs follow it.

    `say` takes one line for each thing done. Without `waits` what cannot be done yet is left to the next look, and a head
    that `had_run` gets no other one: its run was removed, since nobody delivered that anything is wanted.
    """

    github: Getter
    argo: ArgoServer
    template: str
    repository: str
    pr: str
    label: str
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    patience_seconds: float = PATIENCE_SECONDS
    waits: bool = True
    had_run: Callable[[str], bool] = lambda sha: False

    def settle(self) -> None:
        """Acts until the runs fit; of what is told to a run only a look shows whether it came to pass.

        Raises:
            GateError: GitHub or Argo refuses, or cannot be relied upon.
            InfrastructureError: one of them is down, or a run did not come to its gate in time.
        """
        left, pause, rested = self.patience_seconds, FIRST_PAUSE_SECONDS, False
        tried: set[Action] = set()
        while True:
            pull, runs = self._look()
            if not self.waits:  # nobody delivered that anything changed, so something must have
                tried |= {RetryGate(name=name) for name in ended_since(pull, runs)}
            # A run that verify-gate refuses is soon back where it was: to start it once more is for the next label.
            actions = [one for one in follow(pull, runs, label=self.label) if one not in tried and not self._had(one)]
            if not actions and not (self.waits and must_wait(pull, runs, label=self.label)):
                if rested or not self.waits:
                    self.say(_told(pull, runs, self.label))
                    return
                rested = True
                self.sleep(LAG_SECONDS)
                continue
            rested = False
            refused = []
            for action in actions:
                if told := self._act(action):
                    refused.append(told)
                elif isinstance(action, (Resume, RetryGate)):
                    tried.add(RetryGate(name=action.name))
            if left < pause:
                why = refused[0] if refused else f"{_told(pull, runs, self.label)}, and comes no further"
                raise InfrastructureError(f"{why}; the next look goes on from there")
            self.sleep(pause)
            left, pause = left - pause, min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _had(self, action: Action) -> bool:
        return not self.waits and isinstance(action, Submit) and self.had_run(action.sha)

    def _look(self) -> tuple[PullState, list[StagedRun]]:
        path = f"/repos/{self.repository}/pulls/{self.pr}"
        pull = PullState.read(self.github.get(path), path)
        listed = self.argo.runs(self.template, repository=self.repository)
        # Argo's list leaves out what it has archived, but not its answer about a name: so the head's run is asked for in
        # any case. Of other heads' runs only those matter that have not ended, and these are not archived.
        names = {run_name(self.template, self.pr, pull.head), *(run.name for run in listed if self._is_ours(run))}
        staged = [self.argo.staged(self.template, name, repository=self.repository) for name in sorted(names)]
        return pull, [one for one in staged if one is not None and self._is_ours(one.run)]

    def _is_ours(self, run: Run) -> bool:
        return run.pr == self.pr and run.repository.lower() == self.repository.lower()

    def _act(self, action: Action) -> str:
        """Returns the server's words if it did not do it, which may well be right by now."""
        if isinstance(action, Submit):
            name = run_name(self.template, self.pr, action.sha)
            told = self.argo.submit(self.template, name, {"pr": self.pr, "sha": action.sha, "repo": self.repository})
            what = f"submit {name}"
        elif isinstance(action, Resume):
            what, told = f"resume {action.name}", self.argo.resume(action.name)
        elif isinstance(action, Retag):
            what, told = f"let {action.name} tag its image", self.argo.retag(action.name)
        elif isinstance(action, RetryGate):
            what, told = f"retry {action.name} from its gate on", self.argo.retry_gate(action.name)
        else:
            what, told = f"stop {action.name}: {action.message}", self.argo.stop(action.name, action.message)
        self.say(f"{what}{f' (refused: {told})' if told else ''}")
        return told


def lately_changed(github: Getter, repository: str, runs: Iterable[Run]) -> list[str]:
    """Returns the numbers of pull requests for which a delivery may have been lost, each once.

    Those with a run under way, and those that changed last, of which a merged one may still have to be tagged; GitHub does
    not repeat a delivery that failed.
    """
    path = f"/repos/{repository}/pulls"
    body = github.get(path, state="all", sort="updated", direction="desc", per_page=LATELY)
    if not isinstance(body, list):
        raise GateError(f"{path}: {short(body)}, expected a list; is it GitHub's API?")
    found = [str(Fields(pull, path, GateError).integer("number", 1, 10**9)) for pull in body]
    live = [run.pr for run in runs if not run.phase.finished and run.repository.lower() == repository.lower()]
    return list(dict.fromkeys([*live, *found]))


def _told(pull: PullState, runs: list[StagedRun], label: str) -> str:
    own = [f"{one.run.name} is {one.stage.value}" for one in runs if one.run.sha == pull.head]
    labelled = "labelled" if label in pull.labels else "not labelled"
    state = "open" if pull.open else "merged" if pull.merged else "closed"
    return f"{state}, {labelled}, head {pull.head}: {', '.join(own) or 'no run'}"
