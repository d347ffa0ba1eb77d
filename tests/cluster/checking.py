"""`gang-extender check`, as tests run it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from gang_tools.cli.main import app


class Answer:
    """What the command said."""

    def __init__(self, *arguments: str | Path) -> None:
        result = CliRunner().invoke(app, ["check", "-o", "json", *map(str, arguments)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        self.exit_code = result.exit_code
        self.found = json.loads(result.stdout)["findings"]

    def lines(self, level: str) -> dict[str, str]:
        """Return what was found at a level, by id."""
        return {each["id"]: each["found"] for each in self.found if each["level"] == level}
