"""The local Ray cluster: on loopback alone, behind a token, telling nobody outside."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import secrets
import shutil
from pathlib import Path

from configs import folders, private
from configs.settings import Settings
from deployments.tiers import needs
from serve.supervisor.preflight import NotReady

_SOCKET_PATH_MOST_CHARS = 107
_SESSION_CHARS = len("/session_2026-12-01_13-02-32_577023_4194304/sockets/dash_NodeHead_x")
_KEPT_SESSIONS = 2
_MOST_ARGUMENT_BYTES = 32 * 2**20


def prepare_environment(settings: Settings) -> None:
    """What Ray reads from the environment; call before Ray is imported anywhere in this process."""
    temporary = session_folder(settings) / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # what a killed replica left
    temporary.mkdir(mode=0o700)
    os.environ |= {
        "TMPDIR": str(temporary),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(_token(settings)),
        "RAY_worker_niceness": "0",  # Ray would let its own bookkeeping go before the engines, on the same few cores
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "RAY_SERVE_LOG_TO_STDERR": "0",
        "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
        "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
        # Arguments travel inside the call itself: the object store is shared memory, where texts would outlive their turn.
        "RAY_max_direct_call_object_size": str(_MOST_ARGUMENT_BYTES),
        "RAY_task_rpc_inlined_bytes_limit": str(2 * _MOST_ARGUMENT_BYTES),
    }
    if not settings.ray.metrics:
        # Ray's three Prometheus ports know no authentication. The agent's can be switched off; the other two are given
        # a port that cannot be bound, which Ray logs and lives with.
        os.environ |= {
            "RAY_enable_metrics_collection": "0",
            "DASHBOARD_METRIC_PORT": "-1",
            "AUTOSCALER_METRIC_PORT": "-1",
        }


def start(settings: Settings) -> None:
    """Start the cluster in this process's care; it ends with `stop`."""
    import ray  # after the environment is prepared
    from ray._private import ray_constants

    # Ray gives up 127.0.0.1 for the machine's outer address so that other nodes could join. This switch, which it has
    # for desktop systems, keeps the node on loopback, and with it every port of Ray's.
    ray_constants.ENABLE_RAY_CLUSTER = False
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    ray.init(
        num_cpus=settings.ray.logical_cpus,
        object_store_memory=settings.ray.object_store_mib * 2**20,
        include_dashboard=True,
        dashboard_host="127.0.0.1",
        dashboard_port=settings.ray.dashboard_port,
        log_to_driver=False,
        logging_level="warning",
        _temp_dir=str(session_folder(settings)),
    )


def require_gpus(settings: Settings) -> None:
    """Raises NotReady where Ray sees fewer GPUs than the graph needs: it would wait for them without a word."""
    import ray

    needed = {part.name: part.least_gpus for part in needs.parts(settings) if part.gpus}
    there = ray.cluster_resources().get("GPU", 0)
    if sum(needed.values()) > there:
        each = ", ".join(f"{name} {count:g}" for name, count in needed.items())
        raise NotReady(
            f"the profile needs {sum(needed.values()):g} GPUs ({each}) and Ray sees {there:g} here; see "
            "`recall-serve config check FILE`, and `nvidia-smi` for what the machine has"
        )


def stop() -> None:
    """End Serve, letting turns finish that are under way, then the cluster."""
    import ray
    from ray import serve

    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        serve.shutdown()  # Ray reports the end of Serve's own controller as if it were a fault
        ray.shutdown()


def session_folder(settings: Settings) -> Path:
    """Where Ray keeps logs and sockets: in the data folder, or under /tmp where that path is too long for a socket."""
    folder = folders.home(settings) / "ray"
    if len(str(folder)) + _SESSION_CHARS > _SOCKET_PATH_MOST_CHARS:
        own = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        folder = Path("/tmp") / f"recall-serve-{os.geteuid()}-{own}"  # noqa: S108 (mode 0700, owner checked below)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to someone else")
    for old in sorted(folder.glob("session_2*"))[:-_KEPT_SESSIONS]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _token(settings: Settings) -> Path:
    path = folders.secrets(settings) / "ray.token"
    private.made_once(path, lambda: secrets.token_hex(32))
    return path
