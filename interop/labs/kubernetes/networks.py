#!/usr/bin/env python3
"""A CNI plugin that does what Multus does: the pod's own network first, then those that its annotation asks for, each by the
plugin that the node's file of that name says; and it writes on the pod which interfaces and addresses it has. For DEL it takes
them back."""
import json
import os
import ssl
import subprocess
import sys
import urllib.request

ANNOTATION = "k8s.v1.cni.cncf.io/"


def delegate(settings, network, interface):
    """Runs the plugin of a network; what it answers, or the end, with its error."""
    with open(f"{settings['folder']}/{network.split('/')[-1]}.conf") as file:
        conf = json.load(file)
    plugin = os.path.join(os.environ["CNI_PATH"].split(":")[0], conf["type"])
    named = {**os.environ, "CNI_IFNAME": interface}
    done = subprocess.run([plugin], input=json.dumps(conf), env=named, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.stdout.write(done.stdout)
        sys.exit(done.returncode)
    return json.loads(done.stdout or "{}")


def status(network, interface, result, is_default):
    """What network-status says of an interface."""
    inside = [it for it in result.get("interfaces", []) if it.get("sandbox") and it["name"] == interface]
    return {
        "name": network,
        "interface": interface,
        "ips": [ip["address"].split("/")[0] for ip in result.get("ips", [])],
        "mac": inside[0]["mac"] if inside else "",
        "dns": {},
        **({"default": True} if is_default else {}),
    }


class Pod:
    """The pod that the plugin is called for, at the API server, with the identity of its node's kubelet."""

    def __init__(self, settings):
        args = dict(it.split("=", 1) for it in os.environ["CNI_ARGS"].split(";"))
        self.url = f"{settings['server']}/api/v1/namespaces/{args['K8S_POD_NAMESPACE']}/pods/{args['K8S_POD_NAME']}"
        self.settings = settings

    def ask(self, path, method="GET", body=None):
        headers = {"Authorization": f"Bearer {self.settings['token']}", "Content-Type": "application/strategic-merge-patch+json"}
        asked = urllib.request.Request(self.url + path, method=method, headers=headers, data=body and json.dumps(body).encode())
        trusted = ssl.create_default_context(cafile=self.settings["ca"])
        with urllib.request.urlopen(asked, context=trusted, timeout=10) as answer:
            return json.load(answer)

    def networks(self):
        annotations = self.ask("")["metadata"].get("annotations", {})
        return [it.strip() for it in annotations.get(ANNOTATION + "networks", "").split(",") if it.strip()]

    def tell(self, all_status):
        annotation = {ANNOTATION + "network-status": json.dumps(all_status)}
        self.ask("/status", "PATCH", {"metadata": {"annotations": annotation}})


def add(settings, attached):
    pod = Pod(settings)
    wanted = [(settings["name"], os.environ["CNI_IFNAME"])]
    wanted += [(network, f"net{number}") for number, network in enumerate(pod.networks(), 1)]
    results = []
    for network in wanted:
        results.append(delegate(settings, *network))
        with open(attached, "w") as file:
            json.dump(wanted[: len(results)], file)
    pod.tell([status(*network, result, result is results[0]) for network, result in zip(wanted, results)])
    json.dump(results[0], sys.stdout)


def delete(settings, attached):
    if not os.path.exists(attached):
        return
    with open(attached) as file:
        networks = json.load(file)
    for network in reversed(networks):
        delegate(settings, *network)
    os.remove(attached)


def main():
    settings = json.load(sys.stdin)
    command = os.environ["CNI_COMMAND"]
    attached = f"{settings['folder']}/{os.environ.get('CNI_CONTAINERID')}.attached"
    if command == "VERSION":
        json.dump({"cniVersion": "0.3.1", "supportedVersions": ["0.3.1"]}, sys.stdout)
    elif command in ("ADD", "DEL"):
        {"ADD": add, "DEL": delete}[command](settings, attached)


main()
