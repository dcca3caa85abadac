"""How to reach a cluster: the Pod's own service account, or a kubeconfig file."""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from wa_orchestrator.errors import BadSettings

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Address, trust and identity."""

    url: str
    namespace: str
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    """Read for every request: the cluster exchanges it about once an hour."""
    static_token: str = ""

    @property
    def token(self) -> str:
        return self.token_file.read_text("utf-8").strip() if self.token_file else self.static_token


def find_access(kubeconfig: Path | None, namespace: str | None) -> ClusterAccess:
    """Return the access that a kubeconfig file gives or, without one, that of the Pod that we run in."""
    if kubeconfig is not None:
        return _from_file(kubeconfig, namespace)
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if host is None:
        raise BadSettings(
            "KUBERNETES_CONFIG: is required outside of a cluster. "
            "Example: KUBERNETES_CONFIG=/etc/wa-orchestrator/kubeconfig"
        )
    named = f"[{host}]" if ":" in host else host
    url = f"https://{named}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    own = (_ACCOUNT / "namespace").read_text("utf-8").strip()
    trust = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    return ClusterAccess(url, namespace or own, trust, _ACCOUNT / "token")


def _from_file(path: Path, namespace: str | None) -> ClusterAccess:
    try:
        config = yaml.safe_load(path.read_text("utf-8"))
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise BadSettings(f"KUBERNETES_CONFIG: {path} cannot be read ({type(error).__name__}: {error}).") from error
    if "exec" in user or "auth-provider" in user:
        raise BadSettings(
            "KUBERNETES_CONFIG: users that run a program to log in are not supported; use a token or a certificate."
        )
    chosen = namespace or context.get("namespace") or "default"
    url = str(cluster["server"])
    token_file = path.parent / user["tokenFile"] if "tokenFile" in user else None
    tls = _tls(cluster, user, path.parent) if url.startswith("https://") else None
    return ClusterAccess(url, chosen, tls, token_file, str(user.get("token", "")))


def _named(config: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in config[kind] if each["name"] == name)
    return found


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], home: Path) -> ssl.SSLContext:
    """Return what the files and texts of a kubeconfig say. Names of files are relative to `home`, where it is."""
    written, named = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    trusted = base64.b64decode(written).decode() if written else None
    context = ssl.create_default_context(cafile=str(home / named) if named and not trusted else None, cadata=trusted)
    with tempfile.TemporaryDirectory() as place:  # the library takes files only
        certificate, key = (_file(user, name, home, Path(place)) for name in ("client-certificate", "client-key"))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    return context


def _file(user: Mapping[str, Any], name: str, home: Path, place: Path) -> Path | None:
    if (written := user.get(f"{name}-data")) is None:
        return home / user[name] if name in user else None
    path = place / name
    path.touch(0o600)
    path.write_bytes(base64.b64decode(written))
    return path
