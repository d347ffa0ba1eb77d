"""`gang-extender render` and the frame that it is mounted in."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.api.crds import crd
from extender.api.definitions import DEFINITIONS
from extender.cli.main import app
from extender.cli.render import CRDS, HEADER, MEND, rendered_crds

ROOT = Path(__file__).parents[3]
CRD_FILES = {
    "kueue.x-k8s.io_clusterqueues.yaml",
    "kueue.x-k8s.io_cohorts.yaml",
    "kueue.x-k8s.io_localqueues.yaml",
    "kueue.x-k8s.io_resourceflavors.yaml",
    "kueue.x-k8s.io_workloadpriorityclasses.yaml",
    "kueue.x-k8s.io_workloads.yaml",
    "scheduling.sigs.k8s.io_podgroups.yaml",
    "scheduling.x-k8s.io_podgroups.yaml",
}

run = CliRunner()


def checkout(folder: Path) -> Path:
    """Return a folder with fresh manifests, made as the message of --check says."""
    assert run.invoke(app, ["render", "crds", "--output", str(folder / CRDS)]).exit_code == 0
    return folder


def check(folder: Path) -> tuple[int, str, str]:
    result = run.invoke(app, ["render", "--check", "--root", str(folder)])
    return result.exit_code, result.stdout, result.stderr


def test_this_checkout_is_what_render_gives() -> None:
    assert check(ROOT) == (0, "", "")


def test_crds_go_to_standard_output_as_one_stream() -> None:
    result = run.invoke(app, ["render", "crds"])

    assert result.exit_code == 0
    assert list(yaml.safe_load_all(result.stdout)) == [crd(each) for each in DEFINITIONS]


def test_crds_go_into_a_folder_one_file_for_each(tmp_path: Path) -> None:
    folder = checkout(tmp_path) / CRDS

    assert {path.name for path in folder.iterdir()} == CRD_FILES
    for path in folder.iterdir():
        assert path.read_text() == rendered_crds()[path.name]
        assert path.read_text().startswith(HEADER)


def test_rendering_again_changes_nothing(tmp_path: Path) -> None:
    checkout(checkout(tmp_path))

    assert check(tmp_path) == (0, "", "")


def test_a_stale_file_is_shown_as_a_diff_with_the_command_that_mends_it(tmp_path: Path) -> None:
    path = checkout(tmp_path) / CRDS / "scheduling.x-k8s.io_podgroups.yaml"
    path.write_text(path.read_text().replace("scope: Namespaced", "scope: Cluster"))

    code, diff, told = check(tmp_path)

    name = CRDS / path.name
    assert code == 1
    assert diff.splitlines()[:2] == [f"--- {name}", f"+++ {name} (rendered)"]
    assert [line for line in diff.splitlines()[2:] if line[0] in "+-"] == [
        "-  scope: Cluster",
        "+  scope: Namespaced",
    ]
    assert MEND in told


def test_a_missing_file_is_shown_whole(tmp_path: Path) -> None:
    code, diff, _ = check(tmp_path)

    assert code == 1
    assert diff.count("--- /dev/null\n") == len(CRD_FILES)


def test_a_file_that_is_not_rendered_any_more_is_found_and_goes(tmp_path: Path) -> None:
    left_over = checkout(tmp_path) / CRDS / "example.com_formers.yaml"
    left_over.write_text(f"{HEADER}kind: Former\n")

    code, diff, _ = check(tmp_path)
    assert code == 1
    assert "+++ /dev/null\n" in diff

    checkout(tmp_path)
    assert not left_over.exists()


def test_other_peoples_files_in_the_folder_stay(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text("kind: Theirs\n")

    assert run.invoke(app, ["render", "crds", "--output", str(tmp_path)]).exit_code == 0
    assert theirs.exists()


def test_a_folder_that_cannot_be_made_is_a_failure_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = run.invoke(app, ["render", "crds", "--output", str(tmp_path / "file" / "below")])

    assert result.exit_code == 1
    assert result.stderr.startswith("cannot write the manifests: ")


WANT_WRONG_USE = {
    "render alone": ["render"],
    "a command that there is not": ["render", "crd"],
    "an option that there is not": ["render", "--verify"],
    "a checkout that there is not": ["render", "--check", "--root", "/does/not/exist"],
    "a check and a command at once": ["render", "--check", "crds"],
    "no command at all": [],
}


@pytest.mark.parametrize("arguments", WANT_WRONG_USE.values(), ids=WANT_WRONG_USE)
def test_wrong_use_is_two(arguments: list[str]) -> None:
    assert run.invoke(app, arguments).exit_code == 2


def test_the_version_is_told() -> None:
    result = run.invoke(app, ["--version"])

    assert (result.exit_code, result.stdout) == (0, "gang-extender 0.1.0\n")


def test_help_is_quick_because_it_imports_little() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from extender.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    slow = {"pydantic", "fastapi", "kubernetes", "aiohttp", "uvicorn"}
    assert slow.isdisjoint(done.stdout.split())


def test_apply_k_covers_every_crd_and_every_file_that_it_names() -> None:
    resources = yaml.safe_load((ROOT / "manifests/kustomization.yaml").read_text())["resources"]

    assert all((ROOT / "manifests" / path).is_file() for path in resources)
    assert {Path(path).name for path in resources if path.startswith("crds/")} == CRD_FILES


def test_access_without_a_kind_is_wrong_use() -> None:
    result = run.invoke(app, ["render", "access"])
    assert result.exit_code == 2
    assert "--integration" in result.output


def test_access_for_a_kind_that_is_not_there_says_so() -> None:
    result = run.invoke(app, ["render", "access", "--integration", "nowhere:Kind"])
    assert result.exit_code == 2
    assert "cannot import nowhere" in result.output
