"""Files of settings, and what is wrong with one."""

from pathlib import Path

import yaml


class SettingsError(Exception):
    """A setting is wrong; the text names each field and what is wrong with it."""


def read_yaml(path: Path) -> object:
    """Return what a file holds; SettingsError where it cannot be read."""
    try:
        parsed: object = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error
    return parsed
