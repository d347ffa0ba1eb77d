"""Becomes the given command, which the kernel kills when the process that started it dies.

    python die_with_parent.py PARENT_PID COMMAND [ARGUMENT...]

The flag is set here, in a process of its own, and survives `exec`. Setting it between fork and
exec (`preexec_fn`) can deadlock in a parent that has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent died before the command could start")
    os.execvp(command[0], command)
