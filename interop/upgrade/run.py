#!/usr/bin/python3
"""Replaces the programs of three replicas, one after the other, and compares their routes before and after.

  interop/upgrade/run.py OLD NEW

OLD and NEW are folders with weftd and weft of two revisions of one format, each built in a target folder of its own.
Replicas of two formats refuse each other's messages and directories, so there is nothing to compare: the run ends with
both numbers. A GoBGP announces EVPN routes of types 1 to 5 to three old replicas, another one listens; then each replica
is stopped and started as the new one, on the same directory, and at last one of them as the old one again. It prints the
cost of each step, and at the end

  upgrade: N routes before, N after, 0 lost, 0 changed; the listener lacked routes for S s

Exit status 0: nothing was lost. 1: something was. 2: the revisions have two formats. 75: it cannot run here (root,
gobgpd). All of it runs in a network namespace of its own, and ends with it.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

REPLICAS = {1: "10.255.1.1", 2: "10.255.1.2", 3: "10.255.1.3"}
ANNOUNCER, LISTENER = "10.255.0.21", "10.255.0.22"
GOBGP_API = {ANNOUNCER: 50051, LISTENER: 50052}
MACS = 200
ROUTES = [
    "a-d esi ARBITRARY 11:22:33:44:55:66:77:88:99 etag 0 label 100 rd 10.255.0.21:100 rt 65000:100 encap vxlan",
    "multicast 10.255.0.21 etag 0 rd 10.255.0.21:100 rt 65000:100 encap vxlan pmsi ingress-repl 100 10.255.0.21",
    "esi 10.255.0.21 esi ARBITRARY 11:22:33:44:55:66:77:88:99 rd 10.255.0.21:1 encap vxlan",
    "prefix 198.51.100.0/24 gw 0.0.0.0 etag 0 label 100 rd 10.255.0.21:100 rt 65000:100 encap vxlan",
] + [
    f"macadv 00:00:5e:00:53:{n:02x} 192.0.2.{n} etag 0 label 100 rd 10.255.0.21:100 rt 65000:100 encap vxlan"
    for n in range(1, MACS + 1)
]

# As rows of `weft` say them, by the names of the API.
FAMILIES = {"ADDRESS_FAMILY_L2VPN_EVPN": "l2vpn-evpn"}
ORIGINS = {"ORIGIN_IGP": "IGP", "ORIGIN_EGP": "EGP", "ORIGIN_INCOMPLETE": "incomplete", "ORIGIN_UNSPECIFIED": ""}

CONFIG = """[replica]
id = {id}
data_dir = "{directory}/weft{id}"
{replicas}
[bgp]
asn = 65000
router_id = "{address}"
cluster_id = "10.255.1.1"
listen = ["{address}:179"]
[[bgp.peer_group]]
name = "leaves"
remote_asn = 65000
route_reflector_client = true
families = ["l2vpn-evpn"]
hold_secs = 9
[[bgp.listen_range]]
prefix = "10.255.0.0/24"
peer_group = "leaves"
[api]
listen = "{address}:7401"
insecure = true
"""

NEIGHBOR = """
[[neighbors]]
[neighbors.config]
neighbor-address = "{address}"
peer-as = 65000
[neighbors.transport.config]
local-address = "{own}"
[neighbors.timers.config]
hold-time = 9
keepalive-interval = 3
connect-retry = 1
[[neighbors.afi-safis]]
config.afi-safi-name = "l2vpn-evpn"
"""


def run(*command, timeout=10):
    """What a command says; None if it fails or is silent for too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def until(what, question, seconds=60):
    """Asks until the answer is true; says how long that took."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if question():
            return time.monotonic() - start
        time.sleep(0.05)
    sys.exit(f"upgrade: not within {seconds} s: {what}")


class Fabric:
    """Three replicas and two GoBGP."""

    def __init__(self, directory):
        self.directory = directory
        self.programs = {}
        self.release = {}

    def start(self, replica, release):
        self.release[replica] = release
        address = REPLICAS[replica]
        replicas = "".join(f'[[replicas]]\nid = {id}\naddress = "{at}:7400"\n' for id, at in REPLICAS.items())
        config = self.directory / f"weft{replica}.toml"
        config.write_text(CONFIG.format(id=replica, address=address, directory=self.directory, replicas=replicas))
        self.spawn(f"weft{replica}", release / "weftd", "--config", config)

    def format(self, release):
        """The format of a release: that of a directory that it founds."""
        directory = self.directory / "founded"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        config = directory / "weft.toml"
        address = REPLICAS[1]
        config.write_text(CONFIG.format(id=1, address=address, directory=directory, replicas=""))
        self.spawn("founder", release / "weftd", "--config", config)
        identity = directory / "weft1" / "identity"
        until(f"{release}/weftd founds a directory", identity.exists)
        program = self.programs.pop("founder")
        program.send_signal(signal.SIGTERM)
        program.wait(20)
        lines = dict(line.split(" ", 1) for line in identity.read_text().splitlines() if " " in line)
        return int(lines["format"])

    def gobgp(self, own):
        config = self.directory / f"gobgp-{own}.toml"
        head = f'[global.config]\nas = 65000\nrouter-id = "{own}"\nlocal-address-list = ["{own}"]\n'
        config.write_text(head + "".join(NEIGHBOR.format(address=at, own=own) for at in REPLICAS.values()))
        api = f"127.0.0.1:{GOBGP_API[own]}"
        self.spawn(own, "gobgpd", "-t", "toml", "-f", config, "--pprof-disable", "--api-hosts", api)

    def spawn(self, name, *command):
        log = open(self.directory / f"{name}.log", "a")
        self.programs[name] = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, cwd=self.directory)

    def stop(self, replica):
        program = self.programs.pop(f"weft{replica}")
        program.send_signal(signal.SIGTERM)
        program.wait(20)

    def ask(self, replica, *words):
        """What `weft` of the replica's own release says, as JSON."""
        weft = self.release[replica] / "weft"
        said = run(str(weft), "--address", f"{REPLICAS[replica]}:7401", *words, "-o", "json")
        return json.loads(said) if said else None

    def routes(self, replica):
        """All paths by key; empty without an answer."""
        paths = [path for one in self.ask(replica, "route", "list") or [] for path in rows(one)]
        return {(path["rd"], path["key"], path["peer"]): path for path in paths}

    def end(self):
        for program in self.programs.values():
            program.kill()
            program.wait()


def rows(route):
    """The paths of a route, each a row as weft printed it before it printed messages; a row as it is."""
    if "paths" not in route:
        return [route]
    return [
        {
            "family": FAMILIES[route["family"]],
            "rd": route.get("rd", ""),
            "key": route["key"],
            "route_type": int(route["key"][1:].partition("]")[0]),
            "vni": path.get("vni", 0),
            "next_hop": path.get("next_hop", ""),
            "peer": path["peer_router_id"],
            "peer_asn": path["peer_asn"],
            "best": path["best"],
            "by": path.get("decision", "") if path["best"] else "",
            "as_path": path["as_path"],
            "local_pref": path["local_preference"],
            "communities": path["communities"],
            "ext_communities": path["extended_communities"],
            "origin": ORIGINS[path["origin"]],
            "esi": path.get("esi", ""),
        }
        for path in route["paths"]
    ]


def state(peer):
    """The state of a session, of a message of the API or of a row as weft printed it before."""
    if "state" in peer:
        return peer["state"].upper()
    return peer.get("session", {}).get("state", "").removeprefix("SESSION_STATE_")


def told(own):
    """How many EVPN destinations a GoBGP has."""
    said = run("gobgp", "-p", str(GOBGP_API[own]), "global", "rib", "-a", "evpn", "-j", timeout=3)
    return len(json.loads(said)) if said else 0


class Listening(threading.Thread):
    """Asks the listener ten times a second, and adds up for how long it lacked routes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lacked, self.going = 0.0, True

    def run(self):
        since = time.monotonic()
        while self.going:
            there = told(LISTENER) >= len(ROUTES)
            now = time.monotonic()
            if not there:
                self.lacked += now - since
            since = now
            time.sleep(0.1)


def differences(before, after):
    """Routes that are gone, and routes whose known fields changed."""
    lost = [key for key in before if key not in after]
    changed = [
        (key, field, value, after[key].get(field))
        for key, path in before.items()
        if key in after
        for field, value in path.items()
        if after[key].get(field) != value
    ]
    return lost, changed


def upgraded(fabric, old, new):
    """The whole story; the exit status."""
    for replica in REPLICAS:
        fabric.start(replica, old)
    fabric.gobgp(ANNOUNCER)
    fabric.gobgp(LISTENER)
    until("GoBGP listens", lambda: told(ANNOUNCER) == 0 and run("gobgp", "-p", "50051", "global"))
    for route in ROUTES:
        run("gobgp", "-p", str(GOBGP_API[ANNOUNCER]), "global", "rib", "add", "-a", "evpn", *route.split())
    until("all old replicas have the routes", lambda: all(len(fabric.routes(r)) >= len(ROUTES) for r in REPLICAS))
    until("the listener has the routes", lambda: told(LISTENER) >= len(ROUTES))
    before = fabric.routes(1)
    print(f"three old replicas: {len(before)} routes", flush=True)

    listening = Listening()
    listening.start()
    for replica in reversed(REPLICAS):
        fabric.stop(replica)
        fabric.start(replica, new)
        began = time.monotonic()
        until("it has the routes", lambda: len(fabric.routes(replica)) >= len(before))
        print(f"replica {replica} is new: all routes after {time.monotonic() - began:.1f} s", flush=True)
        until("both GoBGP peer with it", lambda: established(fabric, replica) == 2)
    time.sleep(3)
    listening.going = False
    listening.join()

    status = 0
    for replica in REPLICAS:
        after = fabric.routes(replica)
        lost, changed = differences(before, after)
        print(
            f"upgrade: {len(before)} routes before, {len(after)} after at replica {replica}, {len(lost)} lost, "
            f"{len(changed)} changed"
        )
        for one in [*lost, *changed][:10]:
            print("  ", one)
        status |= bool(lost or changed or len(after) != len(before))
    print(f"upgrade: the listener lacked routes for {listening.lacked:.1f} s")
    fabric.stop(1)
    fabric.start(1, old)
    until("the old program takes the directory back", lambda: len(fabric.routes(1)) >= len(before))
    print("the old program on the new directory: all routes")
    return status


def two_formats(formats):
    """Names the formats of two revisions that cannot run in one group; the exit status."""
    print(
        f"upgrade: OLD has format {formats[0]}, NEW has format {formats[1]}: their replicas refuse each other's messages "
        "and directories. Compare two revisions of one format.",
        file=sys.stderr,
    )
    return 2


def established(fabric, replica):
    """Sessions of a replica that are up."""
    return sum(state(peer) == "ESTABLISHED" for peer in fabric.ask(replica, "peer", "list") or [])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    old, new = (pathlib.Path(folder).resolve() for folder in sys.argv[1:])
    for program in [folder / name for folder in (old, new) for name in ("weftd", "weft")]:
        if not os.access(program, os.X_OK):
            sys.exit(f"upgrade: there is no program {program}")
    if os.geteuid() != 0 or not shutil.which("gobgpd"):
        print("NOT RUN: it needs root and gobgpd", file=sys.stderr)
        sys.exit(75)
    if "WEFT_UPGRADE_NAMESPACE" not in os.environ:
        os.environ["WEFT_UPGRADE_NAMESPACE"] = "own"
        os.execvp("unshare", ["unshare", "-n", sys.executable, __file__, str(old), str(new)])
    run("ip", "link", "set", "lo", "up")
    for address in [*REPLICAS.values(), ANNOUNCER, LISTENER]:
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    with tempfile.TemporaryDirectory() as directory:
        fabric = Fabric(pathlib.Path(directory))
        try:
            formats = [fabric.format(release) for release in (old, new)]
            status = upgraded(fabric, old, new) if formats[0] == formats[1] else two_formats(formats)
        except BaseException:
            for log in pathlib.Path(directory).glob("weft*.log"):
                print(f"--- {log.name}", *log.read_text().splitlines()[-5:], sep="\n")
            raise
        finally:
            fabric.end()
    sys.exit(status)


main()
