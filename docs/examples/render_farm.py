"""A kind of job that is not built in: frames of a film, rendered by equal pods."""

from extender.jobs import fields
from extender.jobs.job import Finished, GenericJob, Slot


class Render(GenericJob):
    """A Render of the group example.com."""

    integration = "example.com/render"
    kind = "Render"
    group = "example.com"
    version = "v1"
    plural = "renders"
    suspend_path = ("spec", "paused")

    def slots(self) -> list[Slot]:
        """Return the one template."""
        frames = fields.ensure(self.object, "spec", "frames")
        workers = fields.count(frames, "workers", default=1)
        return [Slot("frames", workers, fields.ensure(frames, "template"))]

    def finished(self) -> Finished | None:
        """Return how it ended."""
        if fields.flag(self.object, "status", "rendered"):
            return Finished(success=True, message="All frames are rendered")
        return None

    def pods_ready(self) -> bool:
        """Return whether all workers run."""
        (frames,) = self.slots()
        return fields.count(self.object, "status", "running") >= frames.count

    def is_active(self) -> bool:
        """Return whether workers run."""
        return fields.count(self.object, "status", "running") > 0
