"""Manifests as YAML text."""

import json
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes text of many lines as a block."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(manifest: dict[str, Any]) -> str:
    """Return a manifest as YAML, in the order of its keys."""
    apart = json.loads(json.dumps(manifest))  # shared parts would become anchors
    return yaml.dump(apart, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
