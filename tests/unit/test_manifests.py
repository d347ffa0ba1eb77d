"""Every kustomization names files that are there and patches what it means."""

from pathlib import Path

import pytest

from tests.harness.kustomize import FILE, KustomizationError, build

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(
    path.parent for top in ("manifests", "overlays") for path in (ROOT / top).rglob(FILE)
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_kustomization_is_whole(folder: Path) -> None:
    found = build(folder)
    names = [
        (
            each["apiVersion"],
            each["kind"],
            each["metadata"].get("namespace"),
            each["metadata"]["name"],
        )
        for each in found
    ]
    assert len(set(names)) == len(names) > 1


def test_one_that_names_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("resources: [missing.yaml]\n")
    with pytest.raises(KustomizationError, match="there is no such file"):
        build(tmp_path)
    (tmp_path / "one.yaml").write_text("{apiVersion: v1, kind: A, metadata: {name: a}}\n")
    patch = "patches: [{target: {kind: B}, patch: '[]'}]\n"
    (tmp_path / FILE).write_text(f"resources: [one.yaml]\n{patch}")
    with pytest.raises(KustomizationError, match="nothing is meant"):
        build(tmp_path)
