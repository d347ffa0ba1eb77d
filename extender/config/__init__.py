"""All settings, in one strict model: the YAML of `--config`, and flags on top.

A file for each section.
"""

from extender.config.gang import Gang
from extender.config.queue import Queue
from extender.config.sections import SettingsError
from extender.config.serving import Certificate, Listen, Reconcile, Tls, Webhooks
from extender.config.settings import Health, Settings, Telemetry, TraceSettings, load

__all__ = [
    "Certificate",
    "Gang",
    "Health",
    "Listen",
    "Queue",
    "Reconcile",
    "Settings",
    "SettingsError",
    "Telemetry",
    "Tls",
    "TraceSettings",
    "Webhooks",
    "load",
]
