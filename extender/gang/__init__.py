"""Pure decisions about pod groups: no I/O, no clock, no task."""
