"""What `--help` says of the settings file is what the model of the settings says."""

import re

import pytest
from typer.main import get_command

from extender.config.settings import Settings
from gang_tools.cli.main import app


@pytest.mark.parametrize("command", ["serve", "reconcile"])
def test_the_help_names_the_sections_that_a_command_reads(command: str) -> None:
    commands = getattr(get_command(app), "commands")  # noqa: B009 - typer has a type of its own
    (text,) = (each.help for each in commands[command].params if each.name == "config")
    named = re.search(r"sections ([a-z, ]+) and ([a-z]+)\.", text)
    assert named is not None
    fields = Settings.model_fields.items()
    read = {name for name, field in fields if f"`{command}`" in (field.description or "")}
    assert {*named[1].split(", "), named[2]} == read


@pytest.mark.parametrize("command", ["check", "page", "serve", "reconcile", "simulate", "snapshot"])
def test_no_help_loses_words_in_brackets(command: str) -> None:
    found = getattr(get_command(app), "commands")[command]  # noqa: B009 - typer has a type of its own
    texts = [found.help, *(getattr(each, "help", "") for each in found.params)]
    assert not re.search(r"(?<!\\)\[[a-z#/@]", " ".join(filter(None, texts)))
