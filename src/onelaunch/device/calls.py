"""What kind of call the host makes, by the call's name: as CUPTI and the simulated device name them."""

from __future__ import annotations

import re

KINDS = (  # the first that is found in the name
    ("captured launch", r"^captured launch$"),
    ("graph launch", r"GraphLaunch|^graph launch|^launch empty graph"),
    ("call", r"Graph.*Node|StreamCapture|^(add|update|disable) |LaunchHostFunc|^launch_host_func"),
    ("launch", r"Launch(Cooperative)?Kernel|^cu(da)?Launch|^launch$"),
    ("memcpy", r"Memcpy|^memcpy|^copy to"),
    ("memset", r"Memset"),
    ("synchronize", r"Synchronize|^synchronize$"),
)


def call_kind(name: str) -> str:
    """ "launch", "captured launch", "graph launch", "memcpy", "memset", "synchronize", or "call" for any other."""
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "call")


def plain_name(name: str) -> str:
    """CUPTI's name of a call without its version and the variant for per-thread streams: cudaLaunchKernel_ptsz_v7000."""
    return re.sub(r"(_v\d+)?(_pts[zd])?(_v\d+)?$", "", name)
