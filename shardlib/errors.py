"""The error families, each with its own exit code; only `commandline.main` turns them into codes.

The codes keep clear of pytest's own (0-5), of sysexits' usage error (64, which Argo also reports for a main that could
not be started), and of a signal's (137, 143). `Exit` holds the codes that a finished command reports.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command that worked ended; what CI and Argo's retry expression look at."""

    GREEN = 0
    RED = 1
    BUG = 70  # an unexpected exception of ours (sysexits' EX_SOFTWARE)
    INFRASTRUCTURE = 75  # dirty GPUs, a lost mount, or stopped by SIGTERM: try again elsewhere (sysexits' EX_TEMPFAIL)


class ShardlibError(Exception):
    """A failure that its message explains: the offending value, its place, and the next step."""

    exit_code: int = 10


class UsageError(ShardlibError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = 11


class SettingsError(ShardlibError):
    """A setting in pyproject.toml, or a marker on a test, is wrong."""

    exit_code = 12


class CollectError(ShardlibError):
    """pytest could not collect, collected nothing, or collected something that cannot be planned."""

    exit_code = 13


class DurationsError(ShardlibError):
    """A durations file cannot be read as `{"node id": seconds}`."""

    exit_code = 14


class PlanError(ShardlibError):
    """A plan or a collect.json is malformed, of another version, tampered with, or not exactly-once."""

    exit_code = 15


class RunFolderError(ShardlibError):
    """The run's folder cannot be used: a missing or foreign file, a link, a size out of bounds."""

    exit_code = 16


class WeightsError(ShardlibError):
    """Samples, a proposal or a log of the weight pipeline cannot be used, or a choice about them does not fit."""

    exit_code = 17


class RegistryError(ShardlibError):
    """A registry refuses what it is asked for, or holds something else than it was said to."""

    exit_code = 18


class GateError(ShardlibError):
    """GitHub or Argo's server refuses what the gate asks for, or answers with something that cannot be relied upon."""

    exit_code = 19


class InfrastructureError(ShardlibError):
    """The node, not the tests, is at fault: worth another try elsewhere."""

    exit_code = int(Exit.INFRASTRUCTURE)
