"""A Kubernetes cluster, as far as preflight and submit need it: the one module that speaks to its API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from shardlib.errors import InfrastructureError, UsageError

_GROUP, _VERSION = "argoproj.io", "v1alpha1"
_ARGO_KINDS = ("WorkflowTemplate", "CronWorkflow", "WorkflowEventBinding")
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Cluster:
    """A cluster through one client; every method raises InfrastructureError if the API does not answer or forbids it."""

    api: Any

    @classmethod
    def connect(cls, context: str | None = None) -> Cluster:
        """Returns the cluster of kubectl's configuration; UsageError if there is none."""
        try:
            return cls(config.new_client_from_config(context=context))
        except (ConfigException, OSError) as err:
            raise UsageError(f"no cluster: {err}; set KUBECONFIG, or name a --context of it") from err

    def create_workflow(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Returns whether this call created it; False if one of its name is there."""
        custom = client.CustomObjectsApi(self.api)
        try:
            custom.create_namespaced_custom_object(
                _GROUP, _VERSION, namespace, "workflows", dict(body), _request_timeout=_TIMEOUT_SECONDS
            )
        except ApiException as err:
            if err.status == 409:
                return False
            raise _failed("creating the workflow", err) from err
        except HTTPError as err:
            raise _failed("creating the workflow", err) from err
        return True

    def crd_versions(self) -> dict[str, list[str]]:
        """Returns the versions that are served, by the name of each of Argo's CRDs."""
        found = self._ask("listing CRDs", client.ApiextensionsV1Api(self.api).list_custom_resource_definition)
        return {
            item.metadata.name: [version.name for version in item.spec.versions if version.served]
            for item in found.items
            if item.metadata.name.endswith(f".{_GROUP}")
        }

    def controller_images(self, namespace: str) -> list[str]:
        """Returns the images of the workflow controllers in a namespace."""
        apps = client.AppsV1Api(self.api)
        found = self._ask("listing deployments", apps.list_namespaced_deployment, namespace)
        images = (one.image for item in found.items for one in item.spec.template.spec.containers)
        return [image for image in images if "workflow-controller" in image]

    def can(self, verb: str, resource: str, namespace: str, *, account: str, group: str = "") -> bool:
        """Returns whether a service account may do something."""
        attributes = client.V1ResourceAttributes(verb=verb, resource=resource, group=group, namespace=namespace)
        user = f"system:serviceaccount:{namespace}:{account}"
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        review = client.V1SubjectAccessReview(spec=spec)
        answer = self._ask(
            "asking for rights", client.AuthorizationV1Api(self.api).create_subject_access_review, review
        )
        return bool(answer.status.allowed)

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Returns a namespace's labels; None if there is no such namespace."""
        found = self._find("reading the namespace", client.CoreV1Api(self.api).read_namespace, name)
        return None if found is None else dict(found.metadata.labels or {})

    def secret(self, namespace: str, name: str) -> tuple[str, frozenset[str]] | None:
        """Returns a Secret's type and the names of its keys, never their values; None if there is none."""
        found = self._find("reading a secret", client.CoreV1Api(self.api).read_namespaced_secret, name, namespace)
        return None if found is None else (str(found.type), frozenset(found.data or {}))

    def claim(self, namespace: str, name: str) -> tuple[str, frozenset[str]] | None:
        """Returns a volume claim's phase and access modes; None if there is none."""
        core = client.CoreV1Api(self.api)
        found = self._find("reading the claim", core.read_namespaced_persistent_volume_claim, name, namespace)
        return None if found is None else (str(found.status.phase), frozenset(found.spec.access_modes or []))

    def exists(self, kind: str, namespace: str, name: str) -> bool:
        """Returns whether there is a ServiceAccount, a ConfigMap or an object of Argo's of that name."""
        core, custom = client.CoreV1Api(self.api), client.CustomObjectsApi(self.api)
        if kind in _ARGO_KINDS:
            arguments = (_GROUP, _VERSION, namespace, f"{kind.lower()}s", name)
            return self._find(f"reading {kind}", custom.get_namespaced_custom_object, *arguments) is not None
        reads = {"ServiceAccount": core.read_namespaced_service_account, "ConfigMap": core.read_namespaced_config_map}
        return self._find(f"reading {kind}", reads[kind], name, namespace) is not None

    def free_nodes(self, resource: str, count: int, selector: Mapping[str, str]) -> tuple[int, int]:
        """Returns how many nodes match the selector, and how many of them offer at least `count` of a resource."""
        label = ",".join(f"{key}={value}" for key, value in selector.items())
        found = self._ask("listing nodes", client.CoreV1Api(self.api).list_node, label_selector=label)
        offered = [int((node.status.allocatable or {}).get(resource, 0)) for node in found.items]
        return len(offered), sum(number >= count for number in offered)

    def _ask(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, _request_timeout=_TIMEOUT_SECONDS, **options)
        except (ApiException, HTTPError) as err:
            raise _failed(what, err) from err

    def _find(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what is asked for; None if it is not there."""
        try:
            return call(*arguments, _request_timeout=_TIMEOUT_SECONDS)
        except ApiException as err:
            if err.status == 404:
                return None
            raise _failed(what, err) from err
        except HTTPError as err:
            raise _failed(what, err) from err


def _failed(what: str, err: Exception) -> InfrastructureError:
    if isinstance(err, ApiException):
        told: Iterable[str] = str(err.body or err.reason).split()
        return InfrastructureError(f"{what}: the API server answers {err.status}: {' '.join(told)[:300]}")
    return InfrastructureError(f"{what}: the API server does not answer: {err}")
