"""All settings, in one strict model: the YAML of `--config`, and flags on top."""
