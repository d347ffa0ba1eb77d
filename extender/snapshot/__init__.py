"""All that a process believes, as one file; and the state made again from it. No I/O, no clock."""
