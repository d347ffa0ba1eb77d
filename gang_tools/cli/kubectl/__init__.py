"""The plugin of kubectl: `kubectl gang`."""
