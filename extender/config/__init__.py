"""All settings, in one strict model: the YAML of `--config`, and flags on top.

A file for each section.
"""

from extender.config.files import SettingsError
from extender.config.gang import Gang
from extender.config.listen import Listen
from extender.config.queue import Queue
from extender.config.reconcile import Reconcile
from extender.config.settings import Health, Settings, load
from extender.config.telemetry import Telemetry, TraceSettings
from extender.config.tls import Certificate, Tls
from extender.config.webhooks import Webhooks

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
