"""The section `webhooks`."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from extender.config.sections import Name, Port, Positive, Section


class WebhookCertificate(Section):
    """A certificate for the webhooks, from files."""

    cert_file: Path
    """PEM certificate chain"""
    key_file: Path
    """PEM key of that certificate"""
    ca_file: Path | None = None
    """PEM authorities that the reconciler writes into the CRDs and the webhook configurations;
    without it you write them, and have old versions served"""


def _auto_or_switch(value: object) -> object:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError("should be auto, true or false")


def _is_https(url: str) -> str:
    if re.fullmatch(r"https://[^/]+", url) is None:
        raise ValueError("should be https://host or https://host:port, without a path")
    return url


class Webhooks(Section):
    """What the API server calls: conversion between versions, and the review of new jobs."""

    enabled: Annotated[Literal["auto"] | bool, BeforeValidator(_auto_or_switch)] = "auto"
    """whether to serve; auto: with the queue, in a pod or where `url` is set"""
    host: str = ""
    """address; empty: all"""
    port: Port = 9443
    """port; 0 takes a free one"""
    older_versions: bool = True
    """whether to have v1beta1 of ClusterQueue and LocalQueue served where the reconciler sees a CRD
    for the first time; later `served` stays as you apply it"""
    older_workloads: bool = False
    """the same for v1beta1 of Workload; each write of a workload is then converted"""
    certificate: WebhookCertificate | None = None
    """files; default: the process makes a certificate and keeps it in a Secret"""
    certificate_days: Positive = 365
    """life of that certificate; it is renewed after two thirds"""
    check_seconds: Positive = 30
    """pause between two looks at the certificate"""
    namespace: Name = "gang-extender-system"
    """namespace of the Secret and the Services"""
    secret: Name = "gang-reconciler-webhooks-tls"  # noqa: S105 - the name of one
    """Secret of the certificate"""
    service: Name = "gang-reconciler-webhooks"
    """Service of the webhooks for jobs, with the ready replicas"""
    conversion_service: Name = "gang-reconciler-conversion"
    """Service of the conversion webhook, with all replicas: reading the queues, which makes a
    replica ready, may take a conversion"""
    configuration: Name = "gang-queue"
    """name of the optional webhook configurations that get the authority"""
    url: Annotated[str, AfterValidator(_is_https)] | None = None
    """where the API server finds the webhooks, instead of the Services: `https://host:port`"""
