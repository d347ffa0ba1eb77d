"""etcd is set back to a backup: what is not in it any more keeps no room."""

import shutil

import pytest

from tests.cluster.alone import alone, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler

control_plane, api = alone(kubelet=True)
SECONDS = 180.0


@pytest.fixture(autouse=True)
def nothing_is_overcommitted() -> None:
    """Keep no books: they read the time after the backup too."""


pair = pair_of("gang", scope="function")


def stop(control_plane: ControlPlane) -> None:
    control_plane.apiserver.stop()
    control_plane.etcd.stop()


def start(control_plane: ControlPlane) -> None:
    control_plane.etcd.start()
    control_plane.apiserver.start()
    control_plane.wait_ready()


def test_pods_that_the_backup_does_not_have_keep_no_room(
    pair: GangScheduler, control_plane: ControlPlane, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    data, backup = control_plane.folder / "etcd", control_plane.folder / "backup"
    stop(control_plane)
    shutil.copytree(data, backup)
    start(control_plane)

    gangs.create("later", 2, cpu="3")
    api.wait_for("it has its nodes", lambda: len(gangs.bound("later")) == 2, SECONDS)
    pair.scheduler.stop()
    stop(control_plane)
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    start(control_plane)
    assert gangs.members("later") == []
    pair.scheduler.start()

    gangs.create("new", 2, cpu="3")
    api.wait_for("there is room for another", lambda: len(gangs.bound("new")) == 2, SECONDS)
