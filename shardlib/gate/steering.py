"""Makes the cluster's runs fit a pull request: looks at both, acts, and looks again until there is nothing left to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shardlib.errors import InfrastructureError
from shardlib.gate.argo import ArgoServer
from shardlib.gate.following import Action, PullState, Resume, RetryGate, StagedRun, Submit, follow, must_wait

PATIENCE_SECONDS = 240.0
"""How long a run may take to its gate or to its end; later, the next look does it (a guess: a cold pull of an image)."""

LAG_SECONDS = 5.0  # what GitHub's API may be behind its webhooks (a guess; seconds were seen)
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0


class Getter(Protocol):
    """What is needed of `github.GitHub`."""

    def get(self, path: str) -> object:
        """Returns the value of GitHub's answer."""


@dataclass(frozen=True, kw_only=True)
class Steering:
    """One pull request and the template whose runs follow it; `say` takes one line for each thing done."""

    github: Getter
    argo: ArgoServer
    template: str
    repository: str
    pr: str
    label: str
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    patience_seconds: float = PATIENCE_SECONDS

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
            # A run that verify-gate refuses is soon back where it was: to start it once more is for the next label.
            actions = [one for one in follow(pull, runs, label=self.label) if one not in tried]
            if not actions and not must_wait(pull, runs, label=self.label):
                if rested:
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
                raise InfrastructureError(f"pull request {self.pr}: {why}; the next look goes on from there")
            self.sleep(pause)
            left, pause = left - pause, min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _look(self) -> tuple[PullState, list[StagedRun]]:
        path = f"/repos/{self.repository}/pulls/{self.pr}"
        pull = PullState.read(self.github.get(path), path)
        runs = []
        for run in self.argo.runs(self.template):
            if run.pr != self.pr or run.repository.lower() != self.repository.lower():
                continue
            stage = self.argo.stage(run.name)
            if stage is not None:  # gone since it was listed
                runs.append(StagedRun(run=run, stage=stage))
        return pull, runs

    def _act(self, action: Action) -> str:
        """Returns the server's words if it did not do it, which may well be right by now."""
        if isinstance(action, Submit):
            name = f"{self.template}-{self.pr}-{action.sha[:12]}"
            told = self.argo.submit(self.template, name, {"pr": self.pr, "sha": action.sha, "repo": self.repository})
            what = f"submit {name}"
        elif isinstance(action, Resume):
            what, told = f"resume {action.name}", self.argo.resume(action.name)
        elif isinstance(action, RetryGate):
            what, told = f"retry {action.name} from its gate on", self.argo.retry_gate(action.name)
        else:
            what, told = f"stop {action.name}: {action.message}", self.argo.stop(action.name, action.message)
        self.say(f"{what}{f' (refused: {told})' if told else ''}")
        return told


def _told(pull: PullState, runs: list[StagedRun], label: str) -> str:
    own = [f"{one.run.name} is {one.stage.value}" for one in runs if one.run.sha == pull.head]
    labelled = "labelled" if label in pull.labels else "not labelled"
    return f"{'open' if pull.open else 'closed'}, {labelled}, head {pull.head}: {', '.join(own) or 'no run'}"
