"""`shardlib`: the table of its commands, one for each module of `shardlib.commands`."""

from __future__ import annotations

from collections.abc import Sequence

from shardlib import commandline
from shardlib.commandline import Command, Program

_FOR_YOU = {
    "collect": Command(help="collect the tests with pytest, with each one's mode and GPUs", takes_pytest_args=True),
    "plan": Command(help="decide which shard runs which tests, and predict how long", takes_pytest_args=True),
    "run": Command(help="run one shard of a plan"),
    "verify": Command(help="prove from the run's folder that every test ran exactly once, and give the verdict"),
    "local": Command(help="collect, plan, run and verify on this machine", takes_pytest_args=True),
    "explain": Command(help="say where a test runs, and why"),
    "weights": Command(help="turn logs of past runs into the durations file: collect, fit, review, accept"),
}
_STEPS = {
    "find-changed": Command(help="say whether a head changes files that the GPU tests are for"),
    "verify-gate": Command(help="ask GitHub whether somebody with write access has approved exactly this commit"),
    "fetch-source": Command(help="make a checkout of one commit, for the build"),
    "open-gate": Command(help="make the cluster's runs fit a pull request: submit, resume, retry, stop"),
    "close-gate": Command(
        help="make the runs fit a pull request, as open-gate does; if GitHub says it is closed, stop them"
    ),
    "tag-image": Command(help="let a tag name an image's digest, which may come from another repository"),
    "conclude": Command(help="report how a workflow ended, from what the run's folder holds"),
    "check": Command(help="say on GitHub how far a workflow is with a commit"),
    "sweep": Command(help="conclude the checks that workflows left open"),
}
# Modules are imported only when their command is called: `run` and `collect` work in images that lack what others need.
PROGRAM = Program(
    name="shardlib",
    usage="shardlib",
    package="shardlib.commands",
    commands={"for you": _FOR_YOU, "steps of the workflow": _STEPS},
    extras={"numpy": "weights", "jwt": "gate", "urllib3": "gate", "kubernetes": "workflows"},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; prints errors on stderr, and never raises them."""
    return commandline.main(PROGRAM, argv)
