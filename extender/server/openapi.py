"""The extender protocol as pydantic models, for the OpenAPI document.

Requests are decoded by msgspec, in part; these models tell people the whole shape.
"""

from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Go field names on the wire."""

    model_config = ConfigDict(populate_by_name=True)


class ExtenderArgs(Model):
    """What kube-scheduler sends to filter and prioritize."""

    pod: dict[str, Any] = Field(alias="Pod", description="The whole Pod.")
    nodes: dict[str, Any] | None = Field(
        None, alias="Nodes", description="A NodeList, where nodeCacheCapable is false."
    )
    node_names: list[str] | None = Field(
        None, alias="NodeNames", description="Node names, where nodeCacheCapable is true."
    )


class FilterResult(Model):
    """The answer of filter."""

    nodes: dict[str, Any] | None = Field(None, alias="Nodes")
    node_names: list[str] | None = Field(
        None, alias="NodeNames", description="The nodes that the pod may use."
    )
    failed_nodes: dict[str, str] = Field({}, alias="FailedNodes")
    failed_and_unresolvable_nodes: dict[str, str] = Field(
        {},
        alias="FailedAndUnresolvableNodes",
        description="Nodes refused, with the reason; preemption would not help.",
    )
    error: str = Field("", alias="Error")


class HostPriority(Model):
    """The points of one node."""

    host: str = Field(alias="Host")
    score: int = Field(alias="Score", ge=0, le=10)


class MetaPod(Model):
    """A victim."""

    uid: str = Field(alias="UID")


class MetaVictims(Model):
    """The victims on one node."""

    pods: list[MetaPod] | None = Field(None, alias="Pods")
    num_pdb_violations: int = Field(0, alias="NumPDBViolations")


class PreemptionArgs(Model):
    """What kube-scheduler sends to preempt."""

    pod: dict[str, Any] = Field(alias="Pod")
    node_name_to_victims: dict[str, Any] | None = Field(None, alias="NodeNameToVictims")
    node_name_to_meta_victims: dict[str, MetaVictims] | None = Field(
        None, alias="NodeNameToMetaVictims"
    )


class PreemptionResult(Model):
    """The answer of preempt: nodes that are left out are not preempted on."""

    node_name_to_meta_victims: dict[str, MetaVictims] = Field(alias="NodeNameToMetaVictims")


class BindingArgs(Model):
    """What kube-scheduler sends to bind."""

    pod_name: str = Field(alias="PodName")
    pod_namespace: str = Field(alias="PodNamespace")
    pod_uid: str = Field(alias="PodUID")
    node: str = Field(alias="Node")


class Problem(Model):
    """The answer of a verb to what it cannot read, or does not answer now; the status is 200."""

    error: str = Field(alias="Error", min_length=1)


class BindingResult(Model):
    """The answer of bind, which may take as long as the gang may wait."""

    error: str = Field("", alias="Error", description="Empty when the pod is on the node.")


class AdmissionReview(Model):
    """What the API server asks before it stores a job, and the answer (admission.k8s.io/v1)."""

    api_version: Literal["admission.k8s.io/v1"] = Field(alias="apiVersion")
    kind: Literal["AdmissionReview"]
    request: dict[str, Any] | None = Field(None, description="Asked; uid and operation are needed.")
    response: dict[str, Any] | None = Field(None, description="Answered: uid, allowed, patch.")


class ConversionReview(Model):
    """Objects to be said in another version, and the answer (apiextensions.k8s.io/v1)."""

    api_version: str = Field("apiextensions.k8s.io/v1", alias="apiVersion")
    kind: Literal["ConversionReview"]
    request: dict[str, Any] | None = Field(None, description="Asked: uid, version and objects.")
    response: dict[str, Any] | None = Field(None, description="Answered: uid, objects and result.")


def without_422(app: FastAPI) -> None:
    """Leave 422 out of the document of an application that answers 400 instead."""
    make = app.openapi

    def document() -> dict[str, Any]:
        made = make()
        for operations in made["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            made.get("components", {}).get("schemas", {}).pop(name, None)
        return made

    app.openapi = document  # type: ignore[method-assign]


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI part that says what a verb is sent."""
    schema = _schema(model)
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def parts_of_requests(*models: type[BaseModel]) -> dict[str, Any]:
    """Return the schemas by name that the models' own refer to, for the document's components."""
    return {
        name: part for model in models for name, part in _schema(model).get("$defs", {}).items()
    }


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
