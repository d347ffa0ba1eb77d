"""Why a workload is where it is: composed from the state, no I/O, no clock."""
