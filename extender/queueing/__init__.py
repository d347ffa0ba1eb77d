"""Decisions about who may run under which quota: frozen answers, no I/O, no clock."""
