"""`python -m tests.bench.loop.measured serve|reconcile KUBECONFIG CONFIG`: a process under test.

Everything is as `gang-extender` runs it, but for the loop, which is asyncio's own and is measured.
Each line on standard input is answered with what was measured since the one before, as JSON.
"""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path

from extender.config.settings import load
from extender.telemetry import logs
from extender.wiring import reconcile, serve
from tests.bench.loop.steps import Meter, new_task

_RUNS = {"serve": serve.serve, "reconcile": reconcile.reconcile}


def answer(meter: Meter) -> None:
    """Answer until the input ends, and then end the process."""
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(meter.take()) + "\n")
        sys.stdout.flush()
    os._exit(0)


async def main(name: str, kubeconfig: Path, file: Path) -> None:
    """Run a process until its input ends."""
    settings = load(file, {})
    logs.configure(settings.log.level, as_json=False)
    asyncio.get_running_loop().set_task_factory(new_task)
    await _RUNS[name](settings, kubeconfig)


if __name__ == "__main__":
    measuring = Meter()
    measuring.install()
    threading.Thread(target=answer, args=(measuring,), daemon=True).start()
    asyncio.run(main(sys.argv[1], *map(Path, sys.argv[2:4])))
