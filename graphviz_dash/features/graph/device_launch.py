"""Reasons against launching a graph from the device, in words."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.graph.device_launch import LaunchFinding, LaunchRule

_VIOLATED: Final = {
    LaunchRule.WORK: "it has no kernel, memcpy or memset node",
    LaunchRule.DYNAMIC_PARALLELISM: "the kernel launches kernels itself",
    LaunchRule.COOPERATIVE: "a cooperative launch, and MPS was in use",
    LaunchRule.ARRAYS: "the copy involves a CUDA array",
    LaunchRule.PINNED_MEMORY: "the copy involves pageable host memory",
}

_UNKNOWN: Final = {
    LaunchRule.DYNAMIC_PARALLELISM: (
        "the bundle does not record whether the kernel launches kernels itself"
    ),
    LaunchRule.COOPERATIVE: (
        "a cooperative launch; the bundle does not record whether MPS was in use"
    ),
    LaunchRule.PINNED_MEMORY: (
        "the bundle does not record whether the host memory of the copy is pinned"
    ),
    LaunchRule.PARAMETERS: "its parameters were not read",
}


def format_finding(finding: LaunchFinding) -> str:
    """Format a violated or unverified rule of device launches."""
    if finding.rule is LaunchRule.KINDS and finding.kind is not None:
        kind = finding.kind.value
        return f"a node of kind {kind}; only Kernel, Memcpy, Memset, ChildGraph may be"
    if finding.devices:
        return f"its nodes are on devices {', '.join(map(str, finding.devices))}"
    if finding.rule is LaunchRule.ONE_DEVICE:
        return f"the bundle does not record the device of {finding.unknown_nodes:,} of its nodes"
    return (_VIOLATED if finding.is_violated else _UNKNOWN)[finding.rule]
