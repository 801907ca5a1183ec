"""Kaniko's executor for the tests: the same command line, the same results, a part of its abilities.

Real Kaniko builds in production; where it cannot be had, this program takes its place in an image: the folder is copied to
/kaniko, and `/kaniko/executor` starts it (Python 3.11 or newer, as root; the file /kaniko/.in-image marks the image). It
reads logins from DOCKER_CONFIG, and runs RUN lines in its own root file system, so that a Dockerfile can read whatever the
pod can. A command's exit code is passed on; all else that goes wrong is 1.

Where it differs: nothing is cached (--cache, --cache-repo and their kin are accepted, their rules checked, and that is all);
pushes and pulls are tried once; COPY from the context does not unpack the base; there is no .dockerignore; flags.py,
dockerfile.py, context.py, registry.py and filesystem.py say what each of them leaves out. What is left out is refused.
"""

from __future__ import annotations

import encodings.idna  # all that is needed later must be loaded before the root file system is emptied
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import build, context, copying, dockerfile, filesystem, flags, images, quoting, registry, steps
from .images import Image, Layer, Reference
from .registry import Registry

_LOADED = (encodings.idna, traceback)
_KANIKO = "/kaniko"
_EXPECTED = (
    steps.BuildError,
    context.ContextError,
    copying.CopyError,
    quoting.DockerfileError,
    filesystem.FilesystemError,
    images.RegistryError,
    OSError,
)


class _Registries:
    """The registries of one build, each opened once, with its login."""

    def __init__(self, options: flags.Options, logins: Mapping[str, str]) -> None:
        self._options, self._logins = options, logins
        self._open: dict[tuple[str, bool], Registry] = {}

    def of(self, reference: Reference, *, push: bool) -> Registry:
        """Returns the registry of an image, by plain HTTP if the flags say so."""
        options, host = self._options, reference.host
        plain = (options.insecure if push else options.insecure_pull) or host in options.insecure_registries
        key = (host, plain)
        if key not in self._open:
            self._open[key] = Registry(host, login=self._logins.get(host), plain=plain)
        return self._open[key]


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Builds and pushes as a command line says; returns the exit code."""
    try:
        options = flags.parse(arguments)
        refused = [one for one in environment if one in flags.REFUSED_VARIABLES or one.startswith("FF_KANIKO_")]
        if refused:
            raise flags.FlagError(f"{refused[0]} is set, which the stand-in does not implement")
    except flags.FlagError as err:
        _print(f"Error: {err}\nUsage:\n  executor [flags]\n")
        return 1
    started = time.monotonic()

    def log(line: str) -> None:
        _print(f"INFO[{int(time.monotonic() - started):04d}] {line}")

    try:
        _build_and_push(options, environment, log)
    except steps.BuildError as err:
        _print(f"error building image: error building stage: {err}")
        return err.exit_code
    except _EXPECTED as err:
        _print(f"error building image: {err}")
        return 1
    return 0


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build_and_push(options: flags.Options, environment: Mapping[str, str], log: steps.Log) -> None:
    os.umask(0o022)
    work = Path(environment.get("KANIKO_DIR", _KANIKO))
    destinations = [Reference.parse(one) for one in options.destinations]
    registries = _Registries(options, registry.logins(Path(environment.get("DOCKER_CONFIG", f"{_KANIKO}/.docker"))))
    folder = context.find(options.context, options.context_sub_path)
    file = dockerfile.parse(_dockerfile(options, folder).read_text(encoding="utf-8"))
    for one in destinations if options.check_push else ():
        try:
            registries.of(one, push=True).check_push(one)
        except images.RegistryError as err:
            raise images.RegistryError(
                f'error checking push permissions: checking push permission for "{one}": {err}'
            ) from err

    def download(layer: Layer) -> Path:
        assert layer.origin is not None  # for only what is built here has a file from the start
        blobs = work / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        return registries.of(layer.origin, push=False).download(layer, blobs)

    image = build.build(
        steps.Source(
            context=folder,
            work=work,
            arguments=_build_arguments(options, environment),
            ignored=options.ignore_paths,
            pull=lambda reference: registries.of(reference, push=False).pull(reference),
            download=download,
            log=log,
        ),
        file,
    )
    image = _labelled(image, options.labels)
    config, manifest = images.manifest_of(image)
    digest = images.digest_of(manifest)
    if options.digest_file:
        target = Path(options.digest_file)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(digest, encoding="ascii")
    if options.no_push:
        log("Skipping push to container registry due to --no-push flag")
        return
    for one in destinations:
        log(f"Pushing image to {one}")
        there = registries.of(one, push=True)
        for layer in image.layers:
            if not there.has_or_mounts(one, layer):
                there.upload(one, layer.digest, (layer.file or download(layer)).read_bytes())
        there.upload(one, images.digest_of(config), config)
        there.put_manifest(one, manifest, image.media_type)
        log(f"Pushed {one.host}/{one.path}@{digest}")


def _dockerfile(options: flags.Options, folder: Path) -> Path:
    """Returns the Dockerfile: as the path is, else below the context."""
    for path in (Path(options.dockerfile), folder / options.dockerfile):
        if path.exists():
            break
    else:
        raise context.ContextError(
            "error resolving dockerfile path: please provide a valid path to a Dockerfile within the build context "
            "with --dockerfile"
        )
    for ignore in (folder / ".dockerignore", path.with_name(path.name + ".dockerignore")):
        if ignore.exists():
            raise context.ContextError(f"{ignore} is there, which the stand-in does not implement")
    return path


def _build_arguments(options: flags.Options, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the arguments by name; one without a value has that of the environment."""
    pairs = (one.partition("=") for one in options.build_args)
    return {name: value if equals else environment.get(name, "") for name, equals, value in pairs}


def _labelled(image: Image, labels: Sequence[str]) -> Image:
    pairs = [one.partition("=") for one in labels]
    for name, equals, _ in pairs:
        if not equals:
            raise steps.BuildError(f"labels must be of the form key=value, got {name}")
    if not labels:
        return image
    own = dict(image.config["config"])
    own["Labels"] = {**(own.get("Labels") or {}), **{name: value for name, _, value in pairs}}
    return Image(config={**image.config, "config": own}, layers=image.layers, media_type=image.media_type)
