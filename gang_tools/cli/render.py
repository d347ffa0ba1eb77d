"""`gang-extender render`: the reference of the settings, and a control-plane node's files."""

import json
from collections.abc import Iterator
from typing import Any, Final

import typer

from gang_tools.cli.static_pod import write_static_pod

Schema = dict[str, Any]

_HEAD: Final = """\
<!-- Generated from extender/config. Do not edit: run make render -->
# Configuration

`serve`, `reconcile`, `explain`, `check` and `simulate` take the same YAML file
with `--config FILE`. A command ignores sections that it does not read.
[Give a process settings](tasks/admin/settings.md) shows how the file gets into their
pods.

```yaml
gang:                       # the same section for both processes
  scheduleTimeoutSeconds: 2m
  agingSeconds: 10m
queue:
  requireRoom: true
log: {format: json}
```

- Every setting has a default. A section, or the file, may be left out.
- An unknown field is refused by name, and so is a value that does not fit; the exit code is 2.
- A time is a number of seconds, or a duration such as `500ms`, `5m` or `1h30m`.
- A flag wins over the file. `gang-extender serve --help` and `gang-extender reconcile --help` list
  the flags.
- A process reads the file once, at its start: restart it after a change. Certificates that
  `listen.tls`, `reconcile.tls` and `webhooks.certificate` name are read again when they change.
- Give `serve` and `reconcile` the same `gang` section. Each process decides by its own section: the
  reconciler writes why a group waits, and computes room, from the settings that it has.
- `--kubeconfig PATH` names the cluster. Without it a process takes the pod's service account, then
  `$KUBECONFIG`, then `~/.kube/config`.
"""
_TABLE: Final = "| setting | value | default | meaning |\n|---|---|---|---|\n"
_UNITS: Final = {"Seconds": "seconds", "Percentage": "percent", "Bytes": "bytes", "Days": "days"}
_TIMES: Final = ("timeout", "recoveryTimeout")
"""The settings that are times though their names, which are Kueue's, have no unit."""
_WORDS: Final = {"string": "text", "array": "list", "object": "mapping", "boolean": "true or false"}

app = typer.Typer(
    name="render", help="Print or write files that are made for you.", no_args_is_help=True
)
app.command("static-pod")(write_static_pod)


@app.command("settings")
def settings() -> None:
    """Print the reference of all settings with values, units and defaults."""
    from extender.config.settings import Settings  # pydantic takes a while

    schema = Settings.model_json_schema()
    defaults = Settings().model_dump(mode="json", by_alias=True)
    parts = [_HEAD]
    for name, field in schema["properties"].items():
        section = _resolved(field, schema)
        parts.append(f"\n## {name}\n\n{section['description']} Read by {field['description']}.\n\n")
        parts += [_TABLE, *_rows(section, name, defaults=defaults[name], schema=schema)]
    typer.echo("".join(parts), nl=False)


def _rows(section: Schema, path: str, *, defaults: Schema | None, schema: Schema) -> Iterator[str]:
    """Yield one row for each setting; `defaults` are None below a section that is not there."""
    for name, field in section["properties"].items():
        kind, full = _resolved(field, schema), f"{path}.{name}"
        below = "properties" in kind
        inner = defaults[name] if defaults is not None else field.get("default")
        required = defaults is None and name in section.get("required", ())
        default = "required" if required else _default(inner, is_section=below)
        meaning = " ".join(field["description"].split())
        cells = (f"`{full}`", _value(name, kind), default, meaning)
        yield "| {} |\n".format(" | ".join(each.replace("|", "\\|") for each in cells))
        if below:
            yield from _rows(kind, full, defaults=inner, schema=schema)


def _resolved(field: Schema, schema: Schema) -> Schema:
    """Return the type of a field, without null."""
    options = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        return _resolved(options[0], schema)
    if "$ref" in field:
        found: Schema = schema["$defs"][field["$ref"].rpartition("/")[2]]
        return found
    return field


def _value(name: str, kind: Schema) -> str:
    """Return the values of a setting: words, or a kind of value with its unit and bounds."""
    if "anyOf" in kind:
        return ", ".join(_value(name, each) for each in kind["anyOf"])
    if "enum" in kind or "const" in kind:
        return ", ".join(f"`{each}`" for each in kind.get("enum", (kind.get("const"),)))
    if kind["type"] in _WORDS:
        return "path" if kind.get("format") == "path" else _WORDS[kind["type"]]
    units = (unit for suffix, unit in _UNITS.items() if name.endswith(suffix))
    return f"{'seconds' if name in _TIMES else next(units, kind['type'])}{_bounds(kind)}"


def _bounds(kind: Schema) -> str:
    """Return the least and the largest value, where there are any."""
    if "exclusiveMinimum" in kind:
        return f" > {kind['exclusiveMinimum']:g}"
    least, most = kind.get("minimum"), kind.get("maximum")
    if least is None:
        return ""
    return f" ≥ {least:g}" if most is None else f", {least:g} to {most:.0f}"


def _default(value: object, *, is_section: bool) -> str:
    if is_section:
        return "unset" if value is None else "as below"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{text}`"
