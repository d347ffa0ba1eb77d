"""The extender with pauses that last until what they wait for has happened.

`python -m tests.harness.long_pauses serve ...` in place of `python -m extender serve ...`. A common
pause ends with its time, and so does what is written while kube-scheduler does not call: what a
test sees would depend on how fast the machine is. After one that was in vain there is no rest,
which would be as long as the pause and more. The log says when a pause begins.
"""

import structlog

from extender.cli.main import main
from extender.permit.ahead import pauses, write
from extender.permit.hold import Gone

SECONDS = 300.0
BEGINS = "a pause begins"
ARRIVING = "a pause may begin for a gang that is being created"

_log = structlog.get_logger(__name__)
_hold, _hold_arriving = pauses.WritePauses.hold, pauses.ArrivalPauses.hold


async def _logged(self: pauses.WritePauses, uid: str, gone: Gone) -> float | None:
    if self.delays(uid):
        _log.info(BEGINS)
    return await _hold(self, uid, gone)


async def _logged_arriving(self: pauses.ArrivalPauses, group: str, gone: Gone) -> float | None:
    _log.info(ARRIVING, group=group)
    return await _hold_arriving(self, group, gone)


if __name__ == "__main__":
    vars(pauses).update(PAUSE_SECONDS=SECONDS)
    vars(pauses).update(ARRIVAL_SECONDS=SECONDS, GAP_SECONDS=SECONDS, ARRIVAL_REST=0)
    vars(write).update(AHEAD_SECONDS=SECONDS, SILENT_SECONDS=SECONDS)
    pauses.WritePauses.hold = _logged  # type: ignore[method-assign]
    pauses.ArrivalPauses.hold = _logged_arriving  # type: ignore[method-assign]
    main()
