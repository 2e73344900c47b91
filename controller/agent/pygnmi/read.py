"""A switch with two uplinks, whose weft-agent is read with pygnmi: once, as it changes, and by the clock.

read.py WEFT-AGENT, in a network namespace that is its own. gRIBI programs the agent, in the words of tests/gribi.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
from entries import operation, params
from gribi import gribi_pb2 as gribi
from gribi import gribi_pb2_grpc as rpc
from pygnmi.client import gNMIclient, gNMIException

ADDRESS = ("127.0.0.1", 9340)
UP1 = "/interfaces/interface[name=up1]"
AFTS = "network-instances/network-instance[name=DEFAULT]/afts"
PREFIX = "203.0.113.0/24"
# The next hops of the prefix, with the numbers that gRIBI knows them by.
HOPS = {"192.0.2.2": 1, "192.0.3.2": 2}
COUNTERS = ["carrier-transitions"] + [
    f"{way}-{what}" for way in ("in", "out") for what in ("discards", "errors", "octets", "pkts")
]
SECOND = 1_000_000_000
# What a busy machine may take; nothing waits so long by itself.
PATIENCE = 30

checks = 0


def check(what, seen, wanted):
    """Ends with both if they differ."""
    global checks
    checks += 1
    if seen != wanted:
        sys.exit(f"FAIL {what}: {seen!r}, not {wanted!r}")
    print(f"     ok  {what}")


def ip(arguments):
    done = subprocess.run(["ip", *arguments.split()], check=True, capture_output=True, text=True)
    return done.stdout


def link(name):
    return json.loads(ip(f"-s -j link show dev {name}"))[0]


def cable():
    ip("link set lo up")
    for number in (1, 2):
        ip(f"link add up{number} type veth peer name far{number}")
        ip(f"addr add 192.0.{number + 1}.1/24 dev up{number}")
        for end in ("far", "up"):
            # Neighbour discovery would move the counters that are compared.
            ip(f"link set {end}{number} addrgenmode none")
            ip(f"link set {end}{number} up")
    # What the switch routes by itself. An agent that hears of it later than of gRIBI would not have the prefix at once.
    ip(f"route add {PREFIX} metric 20 " + " ".join(f"nexthop via {address}" for address in HOPS))


def neighbor(interface, number, name):
    """As lldpcli prints it with json0."""
    chassis = {"id": [{"type": "mac", "value": "00:00:5e:00:53:01"}], "name": [{"value": name}]}
    port = {"id": [{"type": "ifname", "value": "swp1"}]}
    return {"name": interface, "via": "LLDP", "rid": str(number), "chassis": [chassis], "port": [port]}


# The second one sends an escape sequence for its name, and the third is at an interface that is not there.
NEIGHBORS = [neighbor("up1", 1, "spine1"), neighbor("up1", 2, "\x1b[2Jspine2"), neighbor("up9", 3, "spine3")]


@contextmanager
def agent(program):
    """Beside a program that is called lldpcli and prints these neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        shown = Path(folder, "neighbors.json")
        shown.write_text(json.dumps({"lldp": [{"interface": NEIGHBORS}]}))
        lldpcli = Path(folder, "lldpcli")
        lldpcli.write_text(f"#!/bin/sh\nexec cat {shown}\n")
        lldpcli.chmod(0o755)
        listen = f"{ADDRESS[0]}:{ADDRESS[1]}"
        path = {"PATH": f"{folder}:{os.environ['PATH']}"}
        options = ["--listen", listen, "--prefix", PREFIX, "--lease-secs", "3600"]
        process = subprocess.Popen([program, *options], env=os.environ | path)
        try:
            until("the agent listens", listens)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def listens():
    with socket.socket() as connection:
        return connection.connect_ex(ADDRESS) == 0


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"FAIL {what}: not in {PATIENCE} s")
        time.sleep(0.05)


def updates(answer):
    """Path and value of each update of a notification, or of those until the tree is in sync."""
    return {update["path"]: update["val"] for update in answer.get("update", {}).get("update", [])}


def got(client, path, encoding="json_ietf"):
    [notification] = client.get(path=[path], encoding=encoding)["notification"]
    return {update["path"]: update["val"] for update in notification.get("update", [])}


def refused(ask):
    """The gRPC code that a call ends with."""
    try:
        ask()
    except gNMIException as error:
        return error.orig_exc.code().name
    return "OK"


def read_once(client):
    capabilities = client.capabilities()
    check("encodings", capabilities["supported_encodings"], ["json", "json_ietf", "proto"])
    check("version", capabilities["gnmi_version"], "0.10.0")
    models = {model["name"] for model in capabilities["supported_models"]}
    check("models", {"openconfig-interfaces", "openconfig-aft", "openconfig-lldp"} <= models, True)

    status = f"{UP1}/state/oper-status"
    for encoding in ("json", "json_ietf", "proto"):
        check(f"oper-status in {encoding}", got(client, status, encoding), {status[1:]: "UP"})
    speed = got(client, f"{UP1}/ethernet/state/port-speed")
    check("port-speed", list(speed.values()), ["openconfig-if-ethernet:SPEED_10GB"])

    [state] = got(client, f"{UP1}/state").values()
    state = {name.removeprefix("openconfig-interfaces:"): value for name, value in state.items()}
    kernel = link("up1")
    check("name, mtu and ifindex", (state["name"], state["mtu"], state["ifindex"]), ("up1", kernel["mtu"], kernel["ifindex"]))
    check("names of counters", sorted(state["counters"]), sorted(COUNTERS))
    sent = kernel["stats64"]["tx"]
    seen = state["counters"]
    check("out-octets and out-pkts", (seen["out-octets"], seen["out-pkts"]), (str(sent["bytes"]), str(sent["packets"])))

    names = {path for path in got(client, "/interfaces/interface[name=*]/state/name", "proto")}
    wanted = {f"interfaces/interface[name={it['ifname']}]/state/name" for it in json.loads(ip("-j link"))}
    check("a wildcard finds what ip link does", names, wanted)
    [instance] = got(client, "/network-instances/network-instance", "json").values()
    check("the forwarding table of nobody's routes", instance, {"name": "DEFAULT"})


def neighbors(client):
    neighbor = "lldp/interfaces/interface[name=up1]/neighbors/neighbor"
    until("lldpcli is asked", lambda: got(client, f"/{neighbor}"))
    seen = got(client, f"/{neighbor}/state", "json")
    one = {"id": "1", "system-name": "spine1", "chassis-id": "00:00:5e:00:53:01", "port-id": "swp1"}
    check("an LLDP neighbour", seen[f"{neighbor}[id=1]/state"], one)
    odd = {name: value for name, value in one.items() if name != "system-name"} | {"id": "2"}
    check("an odd name is left out", seen[f"{neighbor}[id=2]/state"], odd)
    check("and so is who is at no interface", len(seen), 2)


def refusals(client):
    for what, path, code in [
        ("an unknown path", "/interfaces/interface/oper-state", "INVALID_ARGUMENT"),
        ("an unknown key", "/interfaces/interface[index=1]", "INVALID_ARGUMENT"),
        ("an unknown origin", "cli:interfaces", "INVALID_ARGUMENT"),
        ("an interface that is not there", "/interfaces/interface[name=up9]", "NOT_FOUND"),
        ("a table that nobody programmed", f"/{AFTS}", "NOT_FOUND"),
        ("any depth", "/interfaces/.../oper-status", "UNIMPLEMENTED"),
    ]:
        check(f"{what} is refused", refused(lambda path=path: client.get(path=[path], encoding="json")), code)
    config = {"openconfig-interfaces:enabled": False}
    change = refused(lambda: client.set(update=[(f"{UP1}/config", config)]))
    check("Set is refused", change, "UNIMPLEMENTED")
    check("and changed nothing", link("up1")["operstate"], "UP")
    fast = {"path": UP1, "mode": "sample", "sample_interval": SECOND // 1000}
    stream = client.subscribe(subscribe={"subscription": [fast], "mode": "stream", "encoding": "json"})
    try:
        next(stream)
        code = "OK"
    except Exception as error:
        code = error.code().name
    check("a sample each millisecond is refused", code, "INVALID_ARGUMENT")


def subscribe_once(client):
    wish = {"subscription": [{"path": "/interfaces/interface"}], "mode": "once", "encoding": "proto"}
    stream = client.subscribe_once(wish)
    seen = {}
    for answer in stream:
        seen.update(updates(answer))
        if answer.get("sync_response"):
            break
    stream.close()
    down = got(client, "/interfaces/interface", "proto")
    check("ONCE sends the leaves that Get has", sorted(seen), sorted(down))
    counters = [path for path in seen if path.startswith(f"{UP1[1:]}/state/counters/")]
    check("counters of ONCE", len(counters), len(COUNTERS))


def subscribe_poll(client):
    wish = {"subscription": [{"path": f"{UP1}/state/admin-status"}], "mode": "poll", "encoding": "json_ietf"}
    stream = client.subscribe_poll(wish)
    path = f"{UP1[1:]}/state/admin-status"
    check("a poll is answered", updates(stream.get_update(PATIENCE)), {path: "UP"})
    ip("link set up1 down")
    check("the next one by what is then", updates(stream.get_update(PATIENCE)), {path: "DOWN"})
    ip("link set up1 up")
    until("up1 is up again", lambda: link("up1")["operstate"] == "UP")
    stream.close()


def follow(stream, known, holds, what):
    """Takes what a stream sends until that holds of all that it sent."""
    end = time.monotonic() + PATIENCE
    while not holds(known):
        if time.monotonic() > end:
            sys.exit(f"FAIL {what}: not in {PATIENCE} s; {known}")
        try:
            answer = stream.get_update(1)
        except TimeoutError:
            continue
        for gone in answer.get("update", {}).get("delete", []):
            known.pop(gone["path"], None)
        known.update(updates(answer))
    check(what, True, True)


def program(what, *lines):
    """A client of gRIBI comes, says these lines, and goes. What it said stays."""
    operations = [operation(line.split(), 1, number) for number, line in enumerate(lines, 1)]
    said = [
        gribi.ModifyRequest(params=params("1", "1", "1")),
        gribi.ModifyRequest(election_id=gribi.Uint128(low=1)),
        gribi.ModifyRequest(operation=operations),
    ]
    with grpc.insecure_channel("{}:{}".format(*ADDRESS), options=[("grpc.enable_http_proxy", 0)]) as channel:
        answers = list(rpc.gRIBIStub(channel).Modify(iter(said), timeout=PATIENCE))
    results = [gribi.AFTResult.Status.Name(result.status) for answer in answers for result in answer.result]
    check(what, results, ["FIB_PROGRAMMED"] * len(lines))


def kernel_afts():
    """The leaves that the agent's objects in the kernel make, as ip shows them."""
    entries = []
    for it in json.loads(ip("-j nexthop show proto 155") or "[]"):
        if "group" in it:
            entries.append(("next-hop-groups/next-hop-group", "id", it["id"], {"state/programmed-id": 1}))
            members = f"next-hop-groups/next-hop-group[id={it['id']}]/next-hops/next-hop"
            for member in it["group"]:
                entries.append((members, "index", member["id"], {"state/weight": member.get("weight", 1)}))
        else:
            address = {"state/ip-address": it["gateway"], "state/programmed-index": HOPS[it["gateway"]]}
            interface = {"interface-ref/state/interface": it["dev"]}
            entries.append(("next-hops/next-hop", "index", it["id"], address | interface))
    # Of all tables, for it is an error to ask for one that has never had a route.
    for it in json.loads(ip("-j route show table all proto 155") or "[]"):
        entries.append(("ipv4-unicast/ipv4-entry", "prefix", it["dst"], {"state/next-hop-group": it["nhid"]}))
    leaves = {}
    for entry, key, value, others in entries:
        named = {key: value, f"state/{key}": value} | others
        leaves |= {f"{AFTS}/{entry}[{key}={value}]/{name}": leaf for name, leaf in named.items()}
    return leaves


def shares(leaves):
    """From the prefix by its group to next hops: the weight of each address."""
    group = leaves.get(f"{AFTS}/ipv4-unicast/ipv4-entry[prefix={PREFIX}]/state/next-hop-group")
    members = f"{AFTS}/next-hop-groups/next-hop-group[id={group}]/next-hops/next-hop"
    weights = {path: weight for path, weight in leaves.items() if path.startswith(members) and path.endswith("/weight")}
    hops = {path.replace(members, f"{AFTS}/next-hops/next-hop"): weight for path, weight in weights.items()}
    return {leaves.get(path.replace("/weight", "/ip-address")): weight for path, weight in hops.items()}


def forwarding(client):
    one, two = HOPS
    anywhere = "/network-instances/network-instance/afts"
    check("no forwarding table yet", got(client, anywhere), {})
    hops = [f"add nh {number} {address}" for address, number in HOPS.items()]
    program("gRIBI programs a prefix", *hops, "add nhg 1 1:3 2:1", f"add {PREFIX} 1")
    seen = got(client, f"/{AFTS}", "proto")
    check("next hops, group and prefix are the kernel's", seen, kernel_afts())
    check("with the weights of gRIBI", shares(seen), {one: 3, two: 1})
    [afts] = got(client, anywhere).values()
    [group] = afts["openconfig-network-instance:next-hop-groups"]["next-hop-group"]
    check("and in JSON", [it["state"]["weight"] for it in group["next-hops"]["next-hop"]], ["3", "1"])

    wish = {"subscription": [{"path": f"/{AFTS}", "mode": "on_change"}], "mode": "stream", "encoding": "proto"}
    stream = client.subscribe_stream(wish)
    known = updates(stream.get_update(PATIENCE))
    check("ON_CHANGE begins with what Get has", known, seen)

    def told(what, wanted):
        follow(stream, known, lambda it: shares(it) == wanted and it == kernel_afts(), what)

    program("gRIBI changes weights", "replace nhg 1 1:2 2:5")
    told("new weights are told of", {one: 2, two: 5})
    ip("link set far1 down")
    told("a next hop whose link goes down leaves its group", {two: 5})
    ip("link set far1 up")
    told("and is back with its link", {one: 2, two: 5})
    program("gRIBI takes a member out", "replace nhg 1 2:5", "delete nh 1")
    told("who is deleted leaves the group", {two: 5})
    program("gRIBI deletes the rest", f"delete {PREFIX} 1", "delete nhg 1", "delete nh 2")
    follow(stream, known, lambda it: not it and not kernel_afts(), "and nothing is left")
    stream.close()


def subscribe_on_change(client):
    status, flaps = f"{UP1}/state/oper-status", f"{UP1}/state/counters/carrier-transitions"
    wish = {
        "subscription": [
            {"path": status, "mode": "on_change"},
            {"path": flaps, "mode": "on_change"},
            {"path": "/interfaces/interface[name=up2]", "mode": "on_change"},
        ],
        "mode": "stream",
        "encoding": "json_ietf",
    }
    stream = client.subscribe_stream(wish)
    known = updates(stream.get_update(PATIENCE))
    status, flaps = status[1:], flaps[1:]
    check("ON_CHANGE begins with what there is", known[status], "UP")
    before = int(known[flaps])
    ip("link set far1 down")
    follow(stream, known, lambda it: it[status] == "LOWER_LAYER_DOWN", "a link whose far end goes down is told of")
    follow(stream, known, lambda it: int(it[flaps]) == before + 1, "and its carrier changed once")
    ip("link set far1 up")
    follow(stream, known, lambda it: it[status] == "UP" and int(it[flaps]) == before + 2, "it comes back")
    ip("link delete up2")
    gone = "interfaces/interface[name=up2]"
    follow(stream, known, lambda it: not any(path.startswith(gone) for path in it), "an interface that goes is deleted")
    stream.close()


def subscribe_sample(client):
    path = f"{UP1}/state/counters/out-octets"
    wish = {
        "subscription": [{"path": path, "mode": "sample", "sample_interval": SECOND}],
        "mode": "stream",
        "encoding": "proto",
    }
    stream = client.subscribe_stream(wish)
    first = stream.get_update(PATIENCE)
    before = updates(first)[path[1:]]
    subprocess.run(["ping", "-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"], capture_output=True, check=False)
    until("something was sent through up1", lambda: link("up1")["stats64"]["tx"]["bytes"] > before)
    samples = [stream.get_update(PATIENCE) for _ in range(3)]
    stamps = [sample["update"]["timestamp"] for sample in samples]
    check("each sample is later than the one before", stamps, sorted(set(stamps)))
    sent = link("up1")["stats64"]["tx"]["bytes"]
    seen = updates(samples[-1])[path[1:]]
    check("a counter has counted", before < seen <= sent, True)
    stream.close()


def main():
    [program] = sys.argv[1:]
    # pygnmi logs each refusal, and those are what is asked for here; its threads end with an error when a stream is closed.
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda _: None
    cable()
    until("the uplinks are up", lambda: all(link(name)["operstate"] == "UP" for name in ("up1", "up2")))
    with agent(program), gNMIclient(target=ADDRESS, insecure=True) as client:
        read_once(client)
        neighbors(client)
        refusals(client)
        subscribe_once(client)
        forwarding(client)
        subscribe_poll(client)
        subscribe_on_change(client)
        subscribe_sample(client)
    print(f"     {checks} checks by pygnmi, no fault")


if __name__ == "__main__":
    main()
