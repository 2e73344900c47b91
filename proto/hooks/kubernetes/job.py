#!/usr/bin/env python3
"""Makes a job of pods: `kubectl get pods -o json` in, a job file of weft out.

Each NIC is known by what Multus writes on the pod, `k8s.v1.cni.cncf.io/network-status`: the address that it has in one of
WEFT_NETWORKS. hook.sh says which variables there are.
"""

import json
import os
import re
import sys

STATUS = "k8s.v1.cni.cncf.io/network-status"
# Who says which pod has which ranks: an indexed Job, the training operator, a StatefulSet.
INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)


class Refused(Exception):
    """Why there is no job."""


def networks(text):
    """Pairs of a network and its VNI, as in "fabric/rail0=100"."""
    found = []
    for word in text.split():
        name, _, vni = word.partition("=")
        if not name or not vni.isdigit():
            raise Refused(f"WEFT_NETWORKS: {word}: NAME=VNI is needed, as in fabric/rail0=100")
        found.append((name, int(vni)))
    if not found:
        raise Refused("WEFT_NETWORKS: no network is named")
    return found


def order(pod):
    """Place of a pod among those of its job: its index, or else the numbers in its name."""
    metadata = pod["metadata"]
    known = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    index = next((int(known[name]) for name in INDEXES if known.get(name, "").isdigit()), None)
    parts = re.split(r"(\d+)", metadata["name"])
    natural = [int(part) if part.isdigit() else part for part in parts]
    # Parts are text and number by turns: those of two names can be compared.
    return (index is None, index or 0, natural)


def nics(pod, wanted):
    """The NICs of a pod, in order of the networks."""
    name = pod["metadata"]["name"]
    status = pod["metadata"].get("annotations", {}).get(STATUS)
    if not status:
        raise Refused(f"pod {name} has no {STATUS} yet")
    attached = {}
    for attachment in json.loads(status):
        if attachment.get("ips"):
            attached.setdefault(attachment["name"], []).extend(attachment["ips"][:1])
    found = []
    for network, vni in wanted:
        addresses = attached.get(network)
        if not addresses:
            raise Refused(f"pod {name} has no address in {network}")
        found += [{"address": address, "vni": vni} for address in addresses]
    return found


def job(pods, environment):
    """The job of these pods."""
    wanted = networks(environment.get("WEFT_NETWORKS", ""))
    ended = ("Succeeded", "Failed")
    alive = [it for it in pods if it.get("status", {}).get("phase") not in ended]
    if not alive:
        raise Refused("no pod is there")
    expected = int(environment.get("WEFT_PODS") or 0)
    if len(alive) < expected:
        raise Refused(f"{len(alive)} of {expected} pods are there")
    ranks = []
    for pod in sorted(alive, key=order):
        of_pod = nics(pod, wanted)
        count = int(environment.get("WEFT_RANKS") or len(of_pod))
        # Neighboring ranks share a NIC if there are more of them.
        ranks += [of_pod[rank * len(of_pod) // count] for rank in range(count)]
    group = {
        "name": "all",
        "collective": environment.get("WEFT_COLLECTIVE") or "COLLECTIVE_ALL_REDUCE",
        "octets": int(environment.get("WEFT_OCTETS") or 1 << 30),
    }
    return {
        "name": environment.get("WEFT_JOB", ""),
        "ttl": f"{int(environment.get('WEFT_TTL_SECS') or 3600)}s",
        "priority": int(environment.get("WEFT_PRIORITY") or 0),
        "ranks": ranks,
        "groups": [group],
    }


def main():
    """Reads and prints."""
    try:
        made = job(json.load(sys.stdin)["items"], os.environ)
    except (Refused, ValueError, KeyError, TypeError, AttributeError) as reason:
        print(f"job.py: {type(reason).__name__}: {reason}".replace("Refused: ", ""), file=sys.stderr)
        return 1
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
