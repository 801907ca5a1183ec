"""The settings of the chain: one TOML file, usually gpu-ci.toml, read whole or refused with file, line and key."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlib.errors import SettingsError
from shardlib.places import Place
from workflows.setting_checks import CHECKS, check_together


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting; those without a default must be given. Quantities are Kubernetes' (`64Gi`, `500m`)."""

    # Where it runs.
    name: str = "gpu-ci"  # of the WorkflowTemplate and prefix of all that belongs to it; at most 20 characters
    namespace: str = "gpu-ci"  # must allow SYS_NICE: Pod Security `baseline` does not
    pvc: str = "mnt-ci"  # the claim (ReadWriteMany) behind /mnt/ci; steps share their files there and nowhere else
    artifacts: bool = False  # whether the controller has an artifact repository: without one, an artifact turns red
    image_pull_secrets: tuple[str, ...] = ()
    ttl_days: int = 7  # how long a finished workflow, its pods and their logs stay (a guess: a week's holiday)

    # Images. CI tools and Kaniko by digest: whoever can move a tag would own every run.
    tools_image: str  # containers/ci-tools.Dockerfile, REPOSITORY@sha256:...
    kaniko_image: str  # the maintained fork, osscontainertools/kaniko, by digest
    allow_tags: bool = False  # accept the two by tag, for trying things out
    tools_user: int = 65532  # uid in CI tools pods, which /mnt/ci must be writable for (the image's own user)
    tools_cpu: str = "500m"  # request of each pod of CI tools

    # The tested repository.
    git_url: str = "https://github.com"  # clones GIT_URL/OWNER/NAME.git
    git_secret: str | None = None  # a Secret whose key `token` reads the repository; None: github_secret does, if any
    # The commit chooses its submodules' URLs, so a token that can read other repositories on that server fetches those too.
    submodules: bool = False  # fetch submodules for the build
    repository: str  # OWNER/NAME, the default of the workflow's parameter
    base_branch: str = "main"
    gpu_paths: tuple[str, ...] = ("*",)  # globs (`*` crosses `/`) of GPU code: tests run if such a file changed
    deadline_seconds: int = 259_200  # of a whole run with its wait at the gate: three days, over a weekend

    # The gate, and GitHub.
    gate: bool = True  # wait for the label; False: GPUs start for every change of GPU code
    label: str = "run-gpu-tests"  # what somebody with write access puts on a pull request to let its head run
    github_api: str = "https://api.github.com"  # https://HOST/api/v3 on an Enterprise Server
    github_secret: str | None = None  # with app-id, installation-id, private-key, or token; None: no verify-gate
    allow_forks: bool = False  # whether a head may be in another repository
    check_name: str = "gpu-tests"  # of the check run on each head, which needs an App's secret; "": none
    argo_ui: str | None = None  # https://HOST of Argo's UI, for the check's link; None: no link
    webhook: bool = False  # GitHub's deliveries submit, open and close; False: CI or people do (docs/github.md)
    argo_server: str | None = None  # URL of Argo's server as pods see it, for what webhooks submit

    # The image under test.
    image: str  # repository that `tag` moves in; builds go to IMAGE-ci, the only one that builds may write to
    dockerfile: str = "Dockerfile"
    registry_secret: str | None = None  # dockerconfigjson Secret for IMAGE-ci; a Dockerfile can read it
    # Every build can write the cached layers of every pull request, so one can plant code in another's.
    build_cache: bool = False  # reuse layers of IMAGE-ci/cache-pr-N
    registry_insecure: bool = False  # plain HTTP, for a registry beside the cluster
    build_cpu: str = "4"
    build_memory: str = "16Gi"  # Kaniko unpacks layers in memory
    build_disk: str = "150Gi"  # ephemeral storage: twice an image of CUDA and torch, and its snapshots (a guess)
    build_deadline_seconds: int = 5400
    tag: str = "main"  # what gpu-tests-passed earns: IMAGE:TAG becomes the tested digest; "": no tag
    tag_when: str = "green"  # or "merged": not before the pull request of a green run is merged
    tag_secret: str | None = None  # dockerconfigjson Secret that may write IMAGE; mounted in tag-image alone

    # Its tests.
    python: str = "python3"  # the interpreter in the image under test that has pytest
    workdir: str = "/workspace"  # the checkout in the image
    pytest_args: tuple[str, ...] = ()  # what pytest is called with, such as tests/gpu
    durations: str | None = None  # path of the durations file in the checkout; None: all weights are estimates
    run_args: tuple[str, ...] = ()  # more options of `shardlib run`, such as --simulated-gpus

    # The shards.
    shards: int = 12
    gpus: int = 8  # of each node, all of which a shard takes
    gpu_resource: str = "nvidia.com/gpu"
    shm: str = "64Gi"  # /dev/shm in memory; NCCL and data loaders fill it. Counts against gpu_memory
    gpu_cpu: str = "32"  # request
    gpu_memory: str = "512Gi"  # request and limit: shm and what the tests themselves take
    cpu_tests_cpu: str = "8"  # request of cpu-tests; as many as the tested repository's setting cpu_slots
    cpu_tests_memory: str = "32Gi"
    collect_cpu: str = "1"  # request
    collect_memory: str = "16Gi"
    shard_deadline_seconds: int = 14_400  # no shard's pod lives longer, whatever its tests claim (four hours: a guess)
    grace_seconds: int = 120  # SIGTERM to SIGKILL: a session's fixtures (60 s) and flushing, twice
    gpu_node_selector: Mapping[str, str] = field(default_factory=dict)
    gpu_tolerations: tuple[Mapping[str, Any], ...] = ()
    cpu_node_selector: Mapping[str, str] = field(default_factory=dict)  # of all other pods
    gpu_labels: Mapping[str, str] = field(default_factory=dict)  # of GPU pods, e.g. a queue's
    gpu_priority_class: str | None = None
    other_node: bool = False  # retry on another node: needs a spare one, else the retry waits for a shard's end
    runs_at_once: int = 1  # whole GPU runs at the same time, by a semaphore; 0: no limit

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any], where: str, source: str = "") -> Settings:
        """Returns the settings of a TOML table, checked whole.

        Args:
            table: names to values.
            where: the file, for messages.
            source: the file's text, from which messages take the key's line.

        Raises:
            SettingsError: an unknown or missing key, a wrong type, a value out of range, or two that do not fit.
        """
        place = Place(where=where, source=source)
        fields = {one.name: one for one in dataclasses.fields(cls)}
        for key in table:
            if key not in fields:
                raise place.unknown(key, table[key], list(fields))
        for name, one in fields.items():
            if name not in table and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
                raise SettingsError(
                    f"{where}: {name} is missing; workflows/settings.py in shardlib's repository lists all"
                )
        values = {key: CHECKS[key](key, value, place) for key, value in table.items()}
        settings = cls(**values)
        check_together(settings, place)
        return settings

    @property
    def build_image(self) -> str:
        """The repository that builds push to."""
        return f"{self.image}-ci"

    @property
    def mount(self) -> str:
        """Where the shared volume is mounted in every pod."""
        return "/mnt/ci"


def load(path: Path) -> Settings:
    """Returns the settings of a TOML file; SettingsError with its line otherwise."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise SettingsError(f"{path}: cannot be read: {err}; start from gpu-ci.toml in shardlib's repository") from err
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table = toml.loads(text)
    except (ValueError, RecursionError) as err:  # whose text names line and column
        raise SettingsError(f"{path}: is not valid TOML: {err}") from err
    return Settings.from_mapping(table, str(path), text)
