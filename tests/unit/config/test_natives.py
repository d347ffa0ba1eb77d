"""What settings say of native gangs."""

from pathlib import Path

import pytest
import yaml

from extender.config.gang import Gang
from extender.config.sections import SettingsError


def configuration(folder: Path, *disabled: str) -> Path:
    plugins = {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    path = folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_auto_is_what_kube_schedulers_file_says_else_open(tmp_path: Path) -> None:
    assert Gang().natives() is None
    assert Gang(scheduler_configuration=configuration(tmp_path)).natives() is None
    without = configuration(tmp_path, "GangScheduling")
    assert Gang(scheduler_configuration=without).natives() is True
    assert Gang(scheduler_configuration=without, native="scheduler").natives() is False
    assert Gang(native="extender").natives() is True


def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("kind: Pod")
    with pytest.raises(SettingsError, match=r"gang\.schedulerConfiguration"):
        Gang(scheduler_configuration=path).natives()
