"""Settings: strict, with errors in sentences, flags on top of the file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config.gang import Gang
from extender.config.sections import SettingsError
from extender.config.settings import Listen, Settings, load
from extender.gang.verdicts import GangOptions
from extender.kube.lease import LeaseTimes
from extender.queueing.rules import PodsReady

Overrides = dict[str, dict[str, object]]
TLS = {
    "certFile": "c.pem",
    "keyFile": "k.pem",
    "clientCaFile": "ca.pem",
    "clientNames": ["system:kube-scheduler"],
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "settings.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_no_file_gives_the_defaults() -> None:
    assert load(None, {}) == Settings()
    assert (Settings().listen.host, Settings().listen.port) == ("127.0.0.1", 8888)
    assert Settings().gang.options() == GangOptions()


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "{}", "null"])
def test_an_empty_file_gives_the_defaults(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text), {}) == Settings()


def test_a_file_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {
            "listen": {"port": 9, "maxBodyBytes": 10},
            "gang": {"scheduleTimeoutSeconds": 5, "deniedSeconds": 0, "rejectPercentage": 100},
            "log": {"level": "debug"},
        },
    )
    settings = load(path, {})

    assert settings.listen == Listen(port=9, max_body_bytes=10)
    assert settings.gang.options() == GangOptions(
        schedule_timeout=5, denied=0, reject_percentage=100
    )
    assert settings.log.level == "debug"


def test_a_time_is_seconds_or_a_duration(tmp_path: Path) -> None:
    said = {"gang": {"agingSeconds": "5m", "deniedSeconds": 2}, "reconcile": {"leaseSeconds": "1m"}}
    settings = load(written(tmp_path, said), {})
    assert (settings.gang.aging_seconds, settings.gang.denied_seconds) == (300, 2)
    assert settings.reconcile.lease_seconds == 60


def test_a_placement_is_a_word_or_none(tmp_path: Path) -> None:
    assert Settings().gang.placement is None
    assert load(written(tmp_path, {"gang": {"placement": "pack"}}), {}).gang.placement == "pack"


SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
  - managedResources: [{name: example.com/plan, ignoredByScheduler: true}]
"""


def test_ignored_resources_are_those_of_the_list_and_of_kube_schedulers_file(
    tmp_path: Path,
) -> None:
    scheduler = tmp_path / "kube-scheduler.yaml"
    scheduler.write_text(SCHEDULER)
    gang = {"ignoredResources": ["a.com/b"], "schedulerConfiguration": str(scheduler)}
    ignored = load(written(tmp_path, {"gang": gang}), {}).gang.ignored()

    names = ("a.com/b", "example.com/plan", "example.com/permit")
    assert [ignored.is_ignored(name, "any") for name in names] == [True, True, False]


@pytest.mark.parametrize("asked", [{}, {"bindTogether": "equal"}], ids=["default", "asked for"])
@pytest.mark.parametrize("mine", [True, False])
def test_members_are_not_bound_together_where_kube_schedulers_file_speaks_against_it(
    tmp_path: Path, asked: dict[str, str], mine: bool
) -> None:
    scheduler = tmp_path / "kube-scheduler.yaml"
    ours = "  - {urlPrefix: a, filterVerb: filter, bindVerb: bind}\n"
    scheduler.write_text(SCHEDULER + (ours if mine else ""))
    gang = {**asked, "schedulerConfiguration": str(scheduler)}
    found = load(written(tmp_path, {"gang": gang}), {}).gang

    assert found.options().bind_equal is mine
    assert (found.not_together() is None) is mine


def test_the_file_of_kube_scheduler_is_looked_at_before_anything_runs(tmp_path: Path) -> None:
    def looked_at(name: str) -> None:
        load(None, {"gang": {"scheduler_configuration": tmp_path / name}})

    with pytest.raises(SettingsError, match=r"missing\.yaml: No such file"):
        looked_at("missing.yaml")
    (tmp_path / "other.yaml").write_text("kind: Pod")
    with pytest.raises(SettingsError, match=r"gang\.schedulerConfiguration: .*is Pod, not kubesch"):
        looked_at("other.yaml")


def test_the_election_is_set_as_a_whole_and_keeps_client_gos_times(tmp_path: Path) -> None:
    assert Settings().reconcile.times() == LeaseTimes(duration=15, renew=10, retry=2)

    path = written(tmp_path, {"reconcile": {"leaseSeconds": 3, "renewSeconds": 2.5}})
    settings = load(path, {"reconcile": {"leader_elect": False, "port": None}})
    assert settings.reconcile.times() == LeaseTimes(duration=3, renew=2.5, retry=2)
    assert (settings.reconcile.leader_elect, settings.reconcile.port) == (False, 8889)


def test_flags_win_over_the_file_field_by_field(tmp_path: Path) -> None:
    path = written(
        tmp_path, {"listen": {"port": 9, "host": "localhost"}, "log": {"level": "debug"}}
    )
    overrides: Overrides = {
        "listen": {"port": 10, "host": None},
        "gang": {"schedule_timeout_seconds": 7.0},
        "log": {"level": None, "format": None},
    }

    settings = load(path, overrides)

    assert (settings.listen.port, settings.listen.host) == (10, "localhost")
    assert (settings.gang, settings.log.level) == (Gang(schedule_timeout_seconds=7), "debug")


@pytest.mark.parametrize("flag", [None, 7.0])
def test_a_file_is_in_camel_case_only_with_and_without_a_flag(
    tmp_path: Path, flag: float | None
) -> None:
    path = written(tmp_path, {"gang": {"schedule_timeout_seconds": 5}})

    with pytest.raises(SettingsError, match=r"gang\.schedule_timeout_seconds: there is no such"):
        load(path, {"gang": {"schedule_timeout_seconds": flag}})


def test_one_tls_flag_leaves_the_files_other_paths_alone(tmp_path: Path) -> None:
    path = written(tmp_path, {"listen": {"tls": TLS}})

    settings = load(path, {"listen": {"tls": {"certFile": Path("new.pem")}}})

    assert settings.listen.tls is not None
    assert settings.listen.tls.cert_file == Path("new.pem")
    assert settings.listen.tls.key_file == Path("k.pem")


def test_a_section_without_content_is_an_empty_one(tmp_path: Path) -> None:
    assert load(written(tmp_path, "listen:\n  # port: 9\ngang: {}\n"), {}) == Settings()


LOOPBACK = ["127.0.0.1", "127.8.8.8", "::1", "localhost"]
OUTSIDE = ["0.0.0.0", "::", "10.0.0.1", "gang-extender.local", ""]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_tls(host: str) -> None:
    assert load(None, {"listen": {"host": host}}).listen.host == host


@pytest.mark.parametrize("host", OUTSIDE)
def test_any_other_address_needs_tls(host: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {"listen": {"host": host}})
    assert f"host {host} is not loopback" in str(caught.value)
    assert load(None, {"listen": {"host": host, "tls": TLS}}).listen.host == host


def test_webhooks_are_for_the_shipped_service_and_renewed_each_year(tmp_path: Path) -> None:
    section = Settings().webhooks
    assert (section.enabled, section.port, section.certificate) == ("auto", 9443, None)

    given = {"certFile": "c.pem", "keyFile": "k.pem"}
    path = written(tmp_path, {"webhooks": {"enabled": False, "certificate": given}})
    section = load(path, {}).webhooks
    assert section.enabled is False
    assert section.certificate is not None
    assert section.certificate.ca_file is None


PODS_READY_WRONG: dict[str, dict[str, Any]] = {
    "timeout: 'soon' should be seconds, or a": {"timeout": "soon"},
    "timeout: Input should be greater": {"timeout": 0},
    "timeoutSeconds: there is no such field": {"timeoutSeconds": 2},
    "timeout: True should be seconds, or a": {"timeout": True},
    "timeout: '999": {"timeout": "9" * 5000},
    "recoveryTimeout: Input should be less": {"recoveryTimeout": 1e30},
    "requeuingStrategy.backoffMaxSeconds: Input should be less": {
        "requeuingStrategy": {"backoffMaxSeconds": 1e30}
    },
    "requeuingStrategy.timestamp: Input should": {"requeuingStrategy": {"timestamp": "Now"}},
}
WANT_WRONG: dict[str, tuple[Any, list[str]]] = {
    "an unknown section": ({"listne": {}}, ["listne: there is no such field"]),
    "an unknown field": ({"listen": {"prot": 1}}, ["listen.prot: there is no such field"]),
    "several at once": (
        {"listen": {"prot": 1, "port": 70000}, "log": {"level": "loud"}},
        ["listen.prot: there is no such field", "listen.port: ", "log.level: "],
    ),
    "half of TLS": ({"listen": {"tls": {"certFile": "c"}}}, ["listen.tls.keyFile: is missing"]),
    "TLS for clients of any name": (
        {"listen": {"tls": {**TLS, "clientNames": []}}},
        ["listen.tls.clientNames: "],
    ),
    "TLS for clients of no name": (
        {"listen": {"tls": {**TLS, "clientNames": [""]}}},
        ["listen.tls.clientNames.0: "],
    ),
    "no connections for held binds": (
        {"listen": {"maxConnections": 100, "maxHeldBinds": 100}},
        ["listen: maxConnections must be above maxHeldBinds"],
    ),
    "no time to read": ({"listen": {"readSeconds": 0}}, ["listen.readSeconds: "]),
    "a port that is a word": ({"listen": {"port": "http"}}, ["listen.port: "]),
    "a negative port": ({"listen": {"port": -1}}, ["listen.port: "]),
    "a share over a hundred": ({"gang": {"rejectPercentage": 101}}, ["gang.rejectPercentage: "]),
    "a negative share": ({"gang": {"rejectPercentage": -1}}, ["gang.rejectPercentage: "]),
    "a negative window": ({"gang": {"deniedSeconds": -1}}, ["gang.deniedSeconds: "]),
    "a window that is no time": (
        {"gang": {"deniedSeconds": "soon"}},
        ["gang.deniedSeconds: 'soon' should be seconds, or a duration such as 5m"],
    ),
    "a default time-out above the cap": (
        {"gang": {"scheduleTimeoutSeconds": 1000}},
        ["gang: scheduleTimeoutSeconds (1000) is above maxScheduleTimeoutSeconds (900): raise"],
    ),
    "webhooks that are neither on nor off": (
        {"webhooks": {"enabled": "maybe"}},
        ["webhooks.enabled: should be auto, true or false"],
    ),
    "an endless window": ({"gang": {"deniedSeconds": float("inf")}}, ["gang.deniedSeconds: "]),
    "a time-out of zero": (
        {"gang": {"scheduleTimeoutSeconds": 0}},
        ["gang.scheduleTimeoutSeconds: "],
    ),
    "a time-out without end": (
        {"gang": {"maxScheduleTimeoutSeconds": float("inf")}},
        ["gang.maxScheduleTimeoutSeconds: "],
    ),
    "a default time-out without end": (
        {"gang": {"scheduleTimeoutSeconds": float("inf")}},
        ["gang.scheduleTimeoutSeconds: "],
    ),
    "idle connections that kube-scheduler outlives": (
        {"listen": {"keepAliveSeconds": 90}},
        ["listen.keepAliveSeconds: "],
    ),
    "no body at all": ({"listen": {"maxBodyBytes": 0}}, ["listen.maxBodyBytes: "]),
    "one connection": ({"kube": {"connections": 1}}, ["kube.connections: "]),
    "a lease that is shorter than its renewal": (
        {"reconcile": {"leaseSeconds": 5, "renewSeconds": 5}},
        ["reconcile: leaseSeconds must be above renewSeconds"],
    ),
    "a renewal that is shorter than its pause": (
        {"reconcile": {"renewSeconds": 1, "retrySeconds": 2}},
        ["reconcile: leaseSeconds must be above renewSeconds"],
    ),
    "part of a second of a lease": (
        {"reconcile": {"leaseSeconds": 1.5}},
        ["reconcile.leaseSeconds: "],
    ),
    "overrides of a setting that there is not": (
        {"queue": {"jobOverrides": "pods-ready-timeot<=2h"}},
        ["queue.jobOverrides: pods-ready-timeot<=2h is ignored: it is to begin with one of "],
    ),
    "a lease without a name": ({"reconcile": {"leaseName": ""}}, ["reconcile.leaseName: "]),
    "a policy that there is not": ({"gang": {"onPartial": "kill"}}, ["gang.onPartial: "]),
    "a placement that there is not": (
        {"gang": {"placement": "packed"}},
        ["gang.placement: ", "'pack' or 'spread'"],
    ),
    "a native resource that is ignored": (
        {"gang": {"ignoredResources": ["cpu"]}},
        ["gang.ignoredResources: 'cpu' is not an extended"],
    ),
    **{
        f"the URL {url}": (
            {"webhooks": {"url": url}},
            ["webhooks.url: should be https://host or"],
        )
        for url in ("http://hooks", "hooks:9443", "https://hooks/path", "https://")
    },
    **{
        f"pods ready: {words}": (
            {"queue": {"waitForPodsReady": said}},
            [f"queue.waitForPodsReady.{words}"],
        )
        for words, said in PODS_READY_WRONG.items()
    },
    "a section that is a list": ({"listen": [1]}, ["listen: "]),
    "a list": ([1], ["should be a mapping of sections, such as `listen:`"]),
    "a word": ("listen", ["should be a mapping of sections, such as `listen:`"]),
    "no YAML": ("listen: [", ["not YAML: "]),
}


@pytest.mark.parametrize(("content", "want"), WANT_WRONG.values(), ids=WANT_WRONG)
def test_an_error_names_the_file(tmp_path: Path, content: Any, want: list[str]) -> None:
    path = written(tmp_path, content)

    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert str(caught.value).startswith(f"{path}: ")
    for sentence in want:
        assert sentence in str(caught.value)


def test_a_section_that_is_no_mapping_is_an_error_though_a_flag_sets_a_field(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match="listen: should be a mapping of fields"):
        load(written(tmp_path, {"listen": [1]}), {"listen": {"port": 1}})


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"^/no/such/file: No such file or directory$"):
        load(Path("/no/such/file"), {})


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SettingsError, match="not YAML"):
        load(path, {})


def serve(*args: str, command: str = "serve", **env: str) -> tuple[int, str]:
    """Return exit code and standard error of a command."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    result = subprocess.run(
        [sys.executable, "-m", "gang_tools", command, *args],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**kept, "HOME": "/nonexistent", "NO_COLOR": "1", **env},
    )
    return result.returncode, result.stderr


COMMANDS = pytest.mark.parametrize("command", ["serve", "reconcile"])


@COMMANDS
def test_wrong_settings_are_wrong_use(tmp_path: Path, command: str) -> None:
    path = written(tmp_path, {"listen": {"prot": 1}})

    code, text = serve("--config", str(path), command=command)

    assert (code, text) == (2, f"gang-extender: {path}: listen.prot: there is no such field\n")


def test_listening_on_all_addresses_without_tls_is_wrong_use() -> None:
    code, text = serve("--host", "0.0.0.0")

    assert code == 2
    assert text.startswith("gang-extender: listen: host 0.0.0.0 is not loopback")


@COMMANDS
def test_no_way_to_the_api_server_is_a_failure(tmp_path: Path, command: str) -> None:
    missing = tmp_path / "kubeconfig"

    code, text = serve("--kubeconfig", str(missing), command=command)

    assert code == 1
    assert f"gang-extender: cannot use the kubeconfig {missing}: there is no such file" in text
    assert "Traceback" not in text


def test_a_certificate_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    flags = ("--tls-cert-file", "--tls-key-file", "--tls-client-ca-file")

    code, text = serve(
        *(part for flag in flags for part in (flag, missing)), "--tls-client-name", "a"
    )

    assert (code, text) == (
        2,
        f"gang-extender: listen.tls.certFile: {missing} is not a file\n",
    )


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({}, PodsReady()),
        (
            {"enable": True},
            PodsReady(timeout=300, recovery_timeout=300, block_admission=True),
        ),
        (
            {"enable": True, "timeout": 7, "blockAdmission": False},
            PodsReady(timeout=7, recovery_timeout=7),
        ),
        (
            {"enable": True, "blockAdmission": None, "timeout": None, "recoveryTimeout": None},
            PodsReady(timeout=300, recovery_timeout=300, block_admission=True),
        ),
        ({"enable": None, "blockAdmission": None, "requeuingStrategy": None}, PodsReady()),
        ({"requeuingStrategy": {"backoffBaseSeconds": None, "timestamp": None}}, PodsReady()),
        ({"timeout": "500ms"}, PodsReady(timeout=0.5, recovery_timeout=0.5)),
        (None, PodsReady()),
        ({"enable": False, "blockAdmission": True}, PodsReady(enabled=False)),
        (
            {"timeout": "1h30m", "recoveryTimeout": "0s"},
            PodsReady(timeout=5400, recovery_timeout=None),
        ),
        ({"recoveryTimeout": 60}, PodsReady(recovery_timeout=60)),
        ({"blockAdmission": True}, PodsReady(block_admission=True)),
        (
            {
                "requeuingStrategy": {
                    "backoffLimitCount": 0,
                    "backoffBaseSeconds": 1,
                    "backoffMaxSeconds": 2,
                }
            },
            PodsReady(backoff_limit=0, backoff_base=1, backoff_max=2),
        ),
    ],
)
def test_waiting_for_pods_is_read_from_the_settings(
    tmp_path: Path, said: dict[str, Any] | None, want: PodsReady
) -> None:
    path = written(tmp_path, {"queue": {"waitForPodsReady": said}})
    assert load(path, {}).queue.options().pods_ready == want


def test_which_place_a_workload_has_again(tmp_path: Path) -> None:
    said = {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Creation"}}}
    options = load(written(tmp_path, {"queue": said}), {}).queue.options()
    assert options.requeuing_timestamp == "Creation"


@pytest.mark.parametrize(
    ("said", "mode"), [("", "Auto"), ("podGroups: Off", "Off"), ("podGroups: Auto", "Auto")]
)
def test_off_is_a_word_though_yaml_has_another_name_for_it(
    tmp_path: Path, said: str, mode: str
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"queue:\n  requireRoom: true\n  {said}\n")
    queue = load(path, {}).queue
    assert queue.pod_groups == mode
    assert queue.options().require_room
