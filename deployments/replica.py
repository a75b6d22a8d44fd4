"""What every replica does first: keep a port shut that Serve would open, and let our log lines reach Serve's log.

Every Serve replica opens a gRPC port on all interfaces, without authentication, for calls that arrive by gRPC. Ours
arrive through Ray's own actor calls, which carry the cluster's token, so on one machine the port is never bound. A
cluster that switches those calls to gRPC (`RAY_SERVE_USE_GRPC_BY_DEFAULT=1`) keeps it, behind `RAY_USE_TLS=1`.
"""

from __future__ import annotations

import logging
import os

from ray.serve._private import replica as serve_replica

_OURS = ("serve", "deployments", "memory_store", "tools")


def prepare() -> None:
    """Called in a replica's constructor, before Serve binds the port; the gRPC server then starts without one."""
    if os.environ.get("RAY_SERVE_USE_GRPC_BY_DEFAULT") != "1":
        serve_replica.add_port_to_grpc_server = lambda server, address: 0
    serves = logging.getLogger("ray.serve")
    for name in _OURS:
        logging.getLogger(name).handlers = serves.handlers
        logging.getLogger(name).propagate = False
