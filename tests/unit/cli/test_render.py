"""`gang-extender render` and the frame that it is mounted in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.api.crds import crd
from extender.api.definitions import DEFINITIONS
from extender.cli.main import app
from extender.cli.render import (
    ALERTS,
    CRDS,
    DASHBOARD,
    HEADER,
    MEND,
    MEND_ALERTS,
    MEND_DASHBOARD,
    MEND_SETTINGS,
    SETTINGS,
    rendered_crds,
)
from extender.config import Settings
from extender.telemetry import alerts, dashboard

ROOT = Path(__file__).parents[3]
CRD_FILES = {
    "kueue.x-k8s.io_clusterqueues.yaml",
    "kueue.x-k8s.io_cohorts.yaml",
    "kueue.x-k8s.io_localqueues.yaml",
    "kueue.x-k8s.io_resourceflavors.yaml",
    "kueue.x-k8s.io_topologies.yaml",
    "kueue.x-k8s.io_workloadpriorityclasses.yaml",
    "kueue.x-k8s.io_workloads.yaml",
    "scheduling.sigs.k8s.io_podgroups.yaml",
    "scheduling.x-k8s.io_podgroups.yaml",
}

run = CliRunner()


def render_into(folder: Path) -> Path:
    """Return a folder with fresh files, made as the message of --check says."""
    paths = {"crds": CRDS, "settings": SETTINGS, "dashboard": DASHBOARD, "alerts": ALERTS}
    for command, path in paths.items():
        assert run.invoke(app, ["render", command, "--output", str(folder / path)]).exit_code == 0
    return folder


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fresh files, which is only read: to render takes seconds."""
    return render_into(tmp_path_factory.mktemp("rendered"))


@pytest.fixture
def checkout(rendered: Path, tmp_path: Path) -> Path:
    """A folder with fresh files."""
    return Path(shutil.copytree(rendered, tmp_path / "checkout"))


def check(folder: Path) -> tuple[int, str, str]:
    result = run.invoke(app, ["render", "--check", "--root", str(folder)])
    return result.exit_code, result.stdout, result.stderr


def test_this_checkout_is_what_render_gives() -> None:
    assert check(ROOT) == (0, "", "")


def test_crds_go_to_standard_output_as_one_stream() -> None:
    result = run.invoke(app, ["render", "crds"])

    assert result.exit_code == 0
    assert list(yaml.safe_load_all(result.stdout)) == [crd(each) for each in DEFINITIONS]


def test_crds_go_into_a_folder_one_file_for_each(rendered: Path) -> None:
    want = rendered_crds()

    assert {path.name for path in (rendered / CRDS).iterdir()} == CRD_FILES
    for path in (rendered / CRDS).iterdir():
        assert path.read_text() == want[path.name]
        assert path.read_text().startswith(HEADER)


def test_rendering_again_changes_nothing(checkout: Path) -> None:
    render_into(checkout)

    assert check(checkout) == (0, "", "")


def test_a_stale_file_is_shown_as_a_diff_with_the_command_that_mends_it(checkout: Path) -> None:
    path = checkout / CRDS / "scheduling.x-k8s.io_podgroups.yaml"
    path.write_text(path.read_text().replace("scope: Namespaced", "scope: Cluster"))

    code, diff, reported = check(checkout)

    name = CRDS / path.name
    assert code == 1
    assert diff.splitlines()[:2] == [f"--- {name}", f"+++ {name} (rendered)"]
    assert [line for line in diff.splitlines()[2:] if line[0] in "+-"] == [
        "-  scope: Cluster",
        "+  scope: Namespaced",
    ]
    assert MEND in reported


def test_a_stale_reference_of_settings_is_shown_with_the_command_that_mends_it(
    checkout: Path,
) -> None:
    path = checkout / SETTINGS
    path.write_text(path.read_text().replace("`listen.port`", "`listen.prot`"))

    code, diff, reported = check(checkout)

    assert code == 1
    assert diff.splitlines()[:2] == [f"--- {SETTINGS}", f"+++ {SETTINGS} (rendered)"]
    assert MEND_SETTINGS in reported


@pytest.mark.parametrize(
    ("path", "word", "mend"),
    [(DASHBOARD, "gang_extender_leader", MEND_DASHBOARD), (ALERTS, "1800", MEND_ALERTS)],
    ids=["dashboard", "alerts"],
)
def test_a_stale_file_of_monitoring_is_shown_with_the_command_that_mends_it(
    checkout: Path, path: Path, word: str, mend: str
) -> None:
    file = checkout / path
    file.write_text(file.read_text().replace(word, "other"))

    code, diff, reported = check(checkout)

    assert code == 1
    assert diff.splitlines()[:2] == [f"--- {path}", f"+++ {path} (rendered)"]
    assert mend in reported


def test_the_dashboard_goes_to_standard_output() -> None:
    result = run.invoke(app, ["render", "dashboard"])

    assert json.loads(result.stdout) == dashboard.dashboard()


def test_alerts_are_an_object_of_the_operator_or_a_file_of_rules() -> None:
    shown = yaml.safe_load(run.invoke(app, ["render", "alerts"]).stdout)
    url = "https://example.com/runbooks"
    plain = run.invoke(app, ["render", "alerts", "--plain", "--runbook-url", url]).stdout

    assert shown == alerts.prometheus_rule()
    assert yaml.safe_load(plain) == alerts.rules(f"{url}/")


def rows() -> dict[str, list[str]]:
    """Return the cells of every setting on the page by its name."""
    lines = run.invoke(app, ["render", "settings"]).stdout.splitlines()
    cells = [line[1:-1].strip().split(" | ") for line in lines if line.startswith("| `")]
    return {each[0].strip("`"): each[1:] for each in cells}


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Return every default that is no section by its full name."""
    if not isinstance(value, dict):
        return {path: value}
    return {
        name: found
        for key, below in value.items()
        for name, found in leaves(below, f"{path}.{key}".strip(".")).items()
    }


def test_the_reference_has_every_setting_with_a_default_and_a_meaning() -> None:
    found, want = rows(), leaves(Settings().model_dump(mode="json", by_alias=True))

    assert want.keys() <= found.keys()
    assert {name for name, cells in found.items() if len(cells) != 3 or not all(cells)} == set()
    assert found["listen.port"][:2] == ["integer, 0 to 65535", "`8888`"]
    assert found["listen.tls.clientNames"][:2] == ["list", "required"]
    assert found["gang.agingSeconds"][:2] == ["seconds ≥ 0", "`300`"]
    assert found["queue.releaseQuota"][:2] == [
        "`OnTerminating`, `OnTerminal`",
        "`OnTerminating`",
    ]
    assert found["queue.waitForPodsReady.timeout"][0].startswith("seconds")


def test_every_setting_that_measures_says_its_unit() -> None:
    units = {"Seconds": "seconds", "Percentage": "percent", "Bytes": "bytes", "Days": "days"}
    for name, (value, *_) in rows().items():
        for suffix, unit in units.items():
            assert not name.endswith(suffix) or value.startswith(unit), name


def test_a_page_that_cannot_be_written_is_a_failure_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = run.invoke(app, ["render", "settings", "--output", str(tmp_path / "file" / "page")])

    assert result.exit_code == 1
    assert result.stderr.startswith("cannot write the page: ")


def test_a_missing_file_is_shown_whole(tmp_path: Path) -> None:
    code, diff, _ = check(tmp_path)

    assert code == 1
    assert diff.count("--- /dev/null\n") == len(CRD_FILES) + 3


def test_a_file_that_is_not_rendered_any_more_is_found_and_goes(checkout: Path) -> None:
    left_over = checkout / CRDS / "example.com_formers.yaml"
    left_over.write_text(f"{HEADER}kind: Former\n")

    code, diff, _ = check(checkout)
    assert code == 1
    assert "+++ /dev/null\n" in diff

    render_into(checkout)
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


def test_the_version_is_printed() -> None:
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
    named = yaml.safe_load((ROOT / "manifests/kustomization.yaml").read_text())["resources"]
    crds = yaml.safe_load((ROOT / "manifests/crds/Kustomization").read_text())["resources"]

    assert all((ROOT / "manifests" / path).exists() for path in named)
    assert "crds" in named
    assert set(crds) == CRD_FILES


def test_access_without_a_kind_is_wrong_use() -> None:
    result = run.invoke(app, ["render", "access"])
    assert result.exit_code == 2
    assert "--integration" in result.output


def test_access_for_a_kind_that_is_not_there_says_so() -> None:
    result = run.invoke(app, ["render", "access", "--integration", "nowhere:Kind"])
    assert result.exit_code == 2
    assert "cannot import nowhere" in result.output
