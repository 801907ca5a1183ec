"""Whether a setting of the chain is what it must be; messages name file, line, key, value and what is expected. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shardlib.gate.runs import SHA_DIGITS
from shardlib.places import Place

if TYPE_CHECKING:
    from workflows.settings import Settings

_URL = r"https?://[\w.:/-]+[\w]"
_DAY_SECONDS = 86_400
_MAX_TEXT = 500  # characters; a guess that no image's name, path or argument is longer
_IMAGE = r"[a-z0-9][a-z0-9._:-]*(/[a-z0-9][a-z0-9._-]*)+"  # host, port, path; neither tag nor digest
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NAMED = 63 - len("-999999999-") - SHA_DIGITS  # what a run's name, and a look's, leaves for ours: Argo takes 63
_EXECUTOR_BYTES = 256 << 20  # with less beside it, the whole container dies where a child would have


Check = Callable[[str, Any, Place], Any]


def size(quantity: str) -> float:
    """Returns a Kubernetes quantity as a number: bytes, or cores."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        raise ValueError(f"{quantity!r} is no quantity")
    return float(match[1]) * _UNITS.get(match[2] or "", 1)


def check_together(settings: Settings, place: Place) -> None:
    """Raises SettingsError where two settings do not fit each other."""
    if size(settings.gpu_memory) < size(settings.shm) + _EXECUTOR_BYTES:
        expected = f"more than shm = {settings.shm} and 256Mi: /dev/shm counts against the memory limit"
        raise place.wrong("gpu_memory", settings.gpu_memory, expected)
    for key in () if settings.allow_tags else ("tools_image", "kaniko_image"):
        image = getattr(settings, key)
        if not re.search(r"@sha256:[0-9a-f]{64}$", image):
            raise place.wrong(key, image, "an image by digest, REPOSITORY@sha256:... (or allow_tags = true, to try)")
    if settings.webhook and not (settings.gate and settings.github_secret and settings.argo_server):
        raise place.wrong(
            "webhook", True, "gate = true, github_secret and argo_server with it: deliveries need all three"
        )
    if settings.tag_when == "merged" and settings.github_secret is None:
        raise place.wrong("tag_when", "merged", "github_secret with it: GitHub knows what is merged")
    held = (settings.registry_secret, settings.tag_secret)
    if settings.github_secret is not None and settings.github_secret in held:
        raise place.wrong("github_secret", settings.github_secret, "another Secret than a registry's")
    if settings.tag_secret is not None and settings.tag_secret == settings.registry_secret:
        expected = "another Secret than registry_secret, which a Dockerfile can read"
        raise place.wrong("tag_secret", settings.tag_secret, expected)


def _text(pattern: str, expected: str) -> Check:
    def check(key: str, value: Any, place: Place) -> str:
        # Nothing of these may be a template for Argo, wherever it ends up.
        good = isinstance(value, str) and len(value) <= _MAX_TEXT and value.isprintable() and "{{" not in value
        if not good or not re.fullmatch(pattern, value):
            raise place.wrong(key, value, expected)
        return str(value)

    return check


def _integer(low: int, high: int) -> Check:
    def check(key: str, value: Any, place: Place) -> int:
        if type(value) is not int or not low <= value <= high:
            raise place.wrong(key, value, f"an integer from {low} to {high}")
        return value

    return check


def _flag(key: str, value: Any, place: Place) -> bool:
    if type(value) is not bool:
        raise place.wrong(key, value, "true or false")
    return value


def _quantity(key: str, value: Any, place: Place) -> str:
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value) or not size(value):
        raise place.wrong(key, value, "a quantity in quotes, such as '64Gi', '8' or '500m'")
    return value


def _texts(expected: str) -> Check:
    one = _text(r".+", expected)

    def check(key: str, value: Any, place: Place) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise place.wrong(key, value, f"a list; each of them {expected}")
        return tuple(one(key, item, place) for item in value)

    return check


def _table(key: str, value: Any, place: Place) -> Mapping[str, str]:
    one = _text(r"[A-Za-z0-9./_-]{0,253}", "a table of Kubernetes labels, all of them in quotes")
    if not isinstance(value, dict):
        raise place.wrong(key, value, "a table of Kubernetes labels, all of them in quotes")
    return {one(key, name, place): one(key, item, place) for name, item in value.items()}


def _tolerations(key: str, value: Any, place: Place) -> tuple[Mapping[str, Any], ...]:
    known = {"key", "operator", "value", "effect", "tolerationSeconds"}
    if not isinstance(value, list) or not all(isinstance(item, dict) and item.keys() <= known for item in value):
        raise place.wrong(key, value, f"a list of tables [[{key}]] with {', '.join(sorted(known))}")
    return tuple(value)


def _name(most: int) -> Check:
    return _text(
        rf"[a-z0-9]([a-z0-9-]{{0,{most - 2}}}[a-z0-9])?",
        f"a name of lower-case letters, digits and '-', at most {most}",
    )


_OBJECT = _text(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", "the name of a Kubernetes object")
_PINNED = _text(_IMAGE + r"(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", "an image, REGISTRY/PATH@sha256:...")
_PATH = _text(r"(?!/)(?!.*\.\.)[\w./+-]+", "a path in the repository, without '..'")
_SECONDS = _integer(60, 90 * _DAY_SECONDS)

CHECKS: Mapping[str, Check] = {
    "name": _name(_NAMED),
    "namespace": _name(42),
    "pvc": _OBJECT,
    "artifacts": _flag,
    "image_pull_secrets": _texts("the name of a Secret"),
    "ttl_days": _integer(1, 365),
    "tools_image": _PINNED,
    "kaniko_image": _PINNED,
    "allow_tags": _flag,
    "tools_user": _integer(1, 2**31 - 1),
    "git_url": _text(_URL, "https://HOST, without a slash at the end"),
    "git_secret": _OBJECT,
    "submodules": _flag,
    "repository": _text(r"\w[\w.-]*/\w[\w.-]*", "OWNER/NAME"),
    "base_branch": _text(r"\w[\w./-]*", "a branch"),
    "gpu_paths": _texts("a glob over files, such as 'src/gpu/*'"),
    "deadline_seconds": _SECONDS,
    "gate": _flag,
    "label": _text(r"[\w][\w .:/-]{0,48}[\w]", "a label of letters, digits, '_', '-', '.', ':', '/' and blanks"),
    "github_api": _text(_URL, "https://api.github.com, or https://HOST/api/v3"),
    "github_secret": _OBJECT,
    "allow_forks": _flag,
    "check_name": _text(r"([\w][\w .:/()-]{0,98})?", "a name of letters, digits and blanks, or '' for no check"),
    "argo_ui": _text(_URL, "https://HOST, without a slash at the end"),
    "webhook": _flag,
    "argo_server": _text(_URL, "https://HOST:PORT, without a slash at the end"),
    "image": _text(_IMAGE, "an image's repository, REGISTRY/PATH, without tag and digest"),
    "dockerfile": _PATH,
    "registry_secret": _OBJECT,
    "build_cache": _flag,
    "registry_insecure": _flag,
    "tools_cpu": _quantity,
    "build_cpu": _quantity,
    "build_memory": _quantity,
    "build_disk": _quantity,
    "build_deadline_seconds": _SECONDS,
    "tag": _text(r"(\w[\w.-]{0,127})?", "a tag of an image, or '' for none"),
    "tag_when": _text(r"green|merged", "'green' or 'merged'"),
    "tag_secret": _OBJECT,
    "python": _text(r"[\w./-]+", "a program in the image under test, such as python3"),
    "workdir": _text(r"/[\w./-]*", "an absolute path in the image under test"),
    "pytest_args": _texts("an argument of pytest"),
    "durations": _PATH,
    "run_args": _texts("an option of `shardlib run`"),
    "shards": _integer(1, 999),
    "gpus": _integer(1, 64),
    "gpu_resource": _text(r"[a-z0-9.-]+/[\w.-]+", "an extended resource, such as nvidia.com/gpu"),
    "shm": _quantity,
    "gpu_cpu": _quantity,
    "gpu_memory": _quantity,
    "cpu_tests_cpu": _quantity,
    "cpu_tests_memory": _quantity,
    "collect_cpu": _quantity,
    "collect_memory": _quantity,
    "shard_deadline_seconds": _SECONDS,
    "grace_seconds": _integer(30, 3600),
    "gpu_node_selector": _table,
    "gpu_tolerations": _tolerations,
    "cpu_node_selector": _table,
    "gpu_labels": _table,
    "gpu_priority_class": _OBJECT,
    "other_node": _flag,
    "runs_at_once": _integer(0, 1000),
}
