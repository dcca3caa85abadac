"""The Helm chart: what it renders keeps the schemas of Kubernetes, and agrees with the driver and the settings."""

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]

from wa_orchestrator.runner.kubernetes import objects
from wa_orchestrator.settings import FROM_FILE, Settings
from wa_orchestrator.store.engine.embedded_redis import DURABLE

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm"
HELM = Path(sys.executable).with_name("helm")
#: The oldest and the newest version of Kubernetes whose schemas are tried.
VERSIONS = ("1.29", "1.33")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def rendered(**values: str) -> list[dict[str, Any]]:
    """The objects of an installation."""
    chosen = [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]
    made = helm("template", "first", str(CHART), "--namespace", "messages", *chosen)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout) if each]


def one(made: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(each for each in made if (each["kind"], each["metadata"]["name"]) == (kind, name))


def test_the_chart_has_no_fault_that_helm_knows() -> None:
    linted = helm("lint", "--strict", str(CHART))
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "values", [{}, {"redis__enabled": "false", "existingSecret": "mine"}, {"data__storageClass": "nfs"}]
)
def test_every_object_keeps_the_schema_of_its_kind(values: dict[str, str], version: str) -> None:
    made = rendered(**values)
    for each in made:
        kubernetes_validate.validate(each, version, strict=True)
    kinds = [each["kind"] for each in made]
    assert kinds.count("Deployment") == 3
    assert ("StatefulSet" in kinds) == ("redis__enabled" not in values)


def test_a_history_in_postgresql_is_read_from_the_secret_and_needs_one() -> None:
    made = rendered(archive__postgres="true", existingSecret="mine")
    settings = one(made, "ConfigMap", "wa-settings")["data"]
    assert settings["ARCHIVE_URL_FILE"] == "/etc/wa-orchestrator/secrets/archive_url"
    assert "ARCHIVE_URL_FILE" not in one(rendered(), "ConfigMap", "wa-settings")["data"]
    refused = helm("template", "first", str(CHART), "--set", "archive.postgres=true")
    assert (refused.returncode != 0, "archive_url" in refused.stderr) == (True, True)


def test_a_redis_outside_needs_a_secret_with_its_url() -> None:
    refused = helm("template", "first", str(CHART), "--set", "redis.enabled=false")
    assert (refused.returncode != 0, "redis_url" in refused.stderr) == (True, True)


def test_every_variable_is_a_setting_and_every_secret_a_file() -> None:
    made = rendered(settings__TIMEZONE="Asia/Jerusalem")
    variables = one(made, "ConfigMap", "wa-settings")["data"]
    files = {name: path for name, path in variables.items() if name.endswith("_FILE")}
    assert {name.removesuffix("_FILE").lower() for name in files} <= set(FROM_FILE)
    assert {name.lower() for name in variables.keys() - files.keys()} <= set(Settings.model_fields)
    secret = one(made, "Secret", "wa-secrets")["data"]
    assert {Path(path).name for path in files.values()} <= secret.keys()
    values = {"api_key", "webhook_secret", "auth_key", "dashboard_password"}
    given = {name: base64.b64decode(secret[name]).decode() for name in values}
    read = Settings.model_validate(
        {**given, "timezone": variables["TIMEZONE"], "cluster_name": variables["CLUSTER_NAME"]}
    )
    assert (read.cluster_name, variables["RUNNER"], variables["CREDENTIALS"]) == ("wa", "kubernetes", "server")
    passwords = [value for name, value in given.items() if name != "redis_url"]
    assert not [each for each in passwords if each in str([part for part in made if part["kind"] != "Secret"])]


def test_workers_reach_the_servers_pods_and_the_driver_has_just_its_rights() -> None:
    made = rendered()
    policy = one(made, "NetworkPolicy", "wa-workers")["spec"]
    assert policy["podSelector"]["matchLabels"] == {objects.LABEL_CLUSTER: "wa"}
    server = one(made, "Deployment", "wa-orchestrator")["spec"]["template"]
    reached = policy["egress"][0]["to"][0]["podSelector"]["matchLabels"]
    assert reached.items() <= server["metadata"]["labels"].items()
    assert {each["containerPort"] for each in server["spec"]["containers"][0]["ports"]} >= {
        policy["egress"][0]["ports"][0]["port"]
    }
    rights = {rule["resources"][0]: rule["verbs"] for rule in one(made, "Role", "wa-workers")["rules"]}
    assert rights == {
        "pods": ["create", "delete", "get", "list", "watch"], "secrets": ["create"], "networkpolicies": ["create"], "configmaps": ["get"],
    }  # fmt: skip
    assert one(made, "ClusterRole", "messages-wa-nodes")["rules"][0]["verbs"] == ["list", "watch"]
    drains = one(rendered(drainNodes="true"), "ClusterRole", "messages-wa-nodes")
    assert drains["rules"][0]["verbs"] == ["list", "watch", "patch"]
    assert one(made, "ConfigMap", "wa-workers")["metadata"]["name"] == "wa-workers"


def test_valkey_keeps_what_the_embedded_redis_keeps() -> None:
    pod = one(rendered(), "StatefulSet", "wa-redis")["spec"]["template"]["spec"]
    command = pod["containers"][0]["args"][0]
    options = dict(zip(DURABLE[::2], DURABLE[1::2], strict=True))
    for name in options.keys() - {"--port", "--daemonize", "--save", "--unixsocketperm"}:
        assert f"{name} {options[name]} " in f"{command} "


def test_only_the_orchestrator_may_speak_to_the_cluster_and_no_part_is_root() -> None:
    for each in rendered():
        if each["kind"] not in ("Deployment", "StatefulSet"):
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is each["metadata"]["name"].endswith("orchestrator")
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_the_parts_are_spread_over_nodes_and_leave_a_lost_one_at_once() -> None:
    made = rendered()
    for name in ("orchestrator", "gateway", "dispatcher"):
        template = one(made, "Deployment", f"wa-{name}")["spec"]["template"]
        (spread,) = template["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "on one node all of them run there"
        assert spread["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        patience = {each["key"]: each["tolerationSeconds"] for each in template["spec"]["tolerations"]}
        assert patience["node.kubernetes.io/unreachable"] <= 10  # after the 40 s that the cluster itself waits


def test_what_serves_requests_serves_them_until_the_cluster_sends_no_more() -> None:
    parts = [one(rendered(), "Deployment", f"wa-{name}") for name in ("orchestrator", "gateway", "dispatcher")]
    containers = [each["spec"]["template"]["spec"]["containers"][0] for each in parts]
    assert ["preStop" in each.get("lifecycle", {}) for each in containers] == [True, True, False]
