"""The tables of gRIBI cases, said to a weft-agent by grpcio, on a kernel. Knows nothing of how the agent is made.

Runs in a network namespace of its own, which check.sh makes: it adds links and routes, and an agent for each case.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from gribi import gribi_pb2 as gribi
from gribi import gribi_pb2_grpc as rpc
from grpc_status import rpc_status

from entries import entry, operation, params, request, response

LISTEN = "127.0.0.1:9340"
PATIENCE_SECS = 60
# The first next hop, the first group, and the first part of a group, by the agent's defaults.
NEXT_HOPS, GROUPS, PARTS = 0x57000000, 0x57800000, 0x57C00000
# What a recorded forwarding plane does and a kernel does not: it refuses, and its links change without a moment in between.
# tests/kernel.rs has links of a kernel that go down and up.
RECORDED = {"refuse", "accept", "look", "down", "up"}
TWO = ("add nh 1 192.0.2.2", "add nh 2 198.51.100.2", "add nhg 1 1:3 2:1", "add 203.0.113.0/24 1")


class Failure(Exception):
    """A line that is answered otherwise, or an agent that does not do its work."""


@dataclass
class Case:
    name: str
    lines: list[str] = field(default_factory=list)


def read(path: Path) -> list[Case]:
    cases: list[Case] = []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            cases.append(Case(line[1:-1]))
        elif line and not line.startswith("#"):
            cases[-1].lines.append(line)
    return cases


def ip(words: str) -> str:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"ip {words}: {done.stderr.strip()}")
    return done.stdout


def shown(words: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(ip(words) or "[]")
    return [it for it in listed if it]


def cable() -> None:
    """Two uplinks, and what the switch's own routing has by them."""
    ip("link set lo up")
    for link, address in (("1", "192.0.2.1/24"), ("2", "198.51.100.1/24")):
        ip(f"link add up{link} type veth peer name far{link}")
        ip(f"addr add {address} dev up{link}")
        ip(f"addr add 2001:db8:{link}::1/64 dev up{link} nodad")
        ip(f"link set far{link} up")
        ip(f"link set up{link} up")
    # Every next hop that a prefix of the tables has is one of the switch's own routing.
    gateways = ("192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "198.51.100.2")
    paths = " ".join(f"nexthop via {gateway}" for gateway in gateways)
    for prefix in ("203.0.113.0/24", "198.18.0.0/15"):
        ip(f"route add {prefix} metric 20 {paths}")
    ip("-6 route add 2001:db8:f::/48 metric 20 nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2")


def kernel() -> str:
    """Next hops, groups and routes of the agent, in the words of the tables."""
    objects = sorted(shown("-j nexthop show proto 155"), key=lambda it: int(str(it["id"])))
    lines: list[str] = []
    for it in objects:
        number = int(str(it["id"]))
        members = it.get("group")
        if isinstance(members, list):
            pairs = [f"{member['id'] - NEXT_HOPS}:{member.get('weight', 1)}" for member in members]
            kind = "nhg" if number < PARTS else "part"
            lines.append(" ".join([kind, str(number - GROUPS), *pairs]))
        else:
            lines.append(f"nh {number - NEXT_HOPS} {it['gateway']}")
    # Of all tables, for it is an error to ask for one that has never had a route.
    routes = [it for family in ("-4", "-6") for it in shown(f"{family} -j route show table all proto 155")]
    lines += [f"{it['dst']} {int(str(it['nhid'])) - GROUPS}" for it in routes]
    return " ; ".join(lines)


class Agent:
    """The program, from its start to an end that leaves nothing behind."""

    def __init__(self, program: str) -> None:
        options = ["--prefix", "0.0.0.0/0", "--prefix", "::/0", "--lease-secs", "3600"]
        self.log = Path(tempfile.gettempdir()) / f"weft-agent-{os.getpid()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([program, "--listen", LISTEN, *options], stderr=log)

    def stop(self) -> None:
        self.process.terminate()
        ended = self.process.wait(timeout=PATIENCE_SECS)
        if ended:
            raise Failure(f"weft-agent ended with {ended}: {self.log.read_text()}")
        self.log.unlink()
        if kernel() or "lookup 155" in ip("rule") + ip("-6 rule"):
            raise Failure(f"weft-agent left in the kernel: {kernel()} {ip('rule')}")


def channel() -> grpc.Channel:
    # The agent may have just been started: it is asked again soon.
    soon = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50)]
    return grpc.insecure_channel(LISTEN, options=[("grpc.enable_http_proxy", 0), *soon])


def error(call: object) -> str:
    """The code, and the reason of gRIBI if the details have one."""
    assert isinstance(call, grpc.Call)
    code = "".join(word.capitalize() for word in call.code().name.split("_"))
    status = rpc_status.from_call(call)
    for detail in status.details if status else ():
        modify, flush = gribi.ModifyRPCErrorDetails(), gribi.FlushResponseError()
        if detail.Unpack(modify):
            return f"{code}/{gribi.ModifyRPCErrorDetails.Reason.Name(modify.reason)}"
        if detail.Unpack(flush):
            return f"{code}/{gribi.FlushResponseError.Reason.Name(flush.status)}"
    return code


class Stream:
    """One client's Modify stream."""

    def __init__(self) -> None:
        self.channel = channel()
        self.requests: queue.SimpleQueue[gribi.ModifyRequest | None] = queue.SimpleQueue()
        said: Iterator[gribi.ModifyRequest] = iter(self.requests.get, None)
        self.call = rpc.gRIBIStub(self.channel).Modify(said, timeout=PATIENCE_SECS, wait_for_ready=True)
        self.election = 0

    def ask(self, request: gribi.ModifyRequest) -> str:
        """All responses to one request: one, or as many as it takes to have all results."""
        self.requests.put(request)
        responses: list[gribi.ModifyResponse] = []
        results: list[gribi.AFTResult] = []
        asked = [it.id for it in request.operation]
        while not responses or len(results) < len(asked):
            try:
                responses.append(next(self.call))
            except StopIteration:
                return "Ok"
            except grpc.RpcError as ended:
                return error(ended)
            results += responses[-1].result
        if [it.id for it in results] != asked or any(it.timestamp <= 0 for it in results):
            raise Failure(f"results of operations {asked}: {results}")
        return " ; ".join(map(response, responses))

    def close(self) -> str:
        self.requests.put(None)
        try:
            rest = next(self.call)
        except StopIteration:
            return "ok"
        except grpc.RpcError as ended:
            return error(ended)
        finally:
            self.channel.close()
        return str(rest)


class Run:
    """One case."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.channel = channel()
        self.stub = rpc.gRIBIStub(self.channel)

    def end(self) -> None:
        for stream in self.streams.values():
            stream.requests.put(None)
            stream.call.cancel()
            stream.channel.close()
        self.channel.close()

    def script(self, case: Case) -> None:
        for line in case.lines:
            said, _, expected = line.partition("=>")
            expected = expected.strip() if "=>" in line else "ok"
            answer = self.say(said.split())
            firsts = [part.split(" ")[0] for part in answer.split(" ; ")]
            one_word = " " not in expected and firsts[0] == expected
            if answer != expected and not one_word and firsts != expected.split(" ; "):
                raise Failure(f"{line}\n    answered: {answer}")

    def say(self, words: list[str]) -> str:
        match words:
            case ["get", instance, table]:
                entries = self.get(instance, table)
                return entries if isinstance(entries, str) else " ; ".join(map(entry, entries))
            case ["count", instance, table]:
                entries = self.get(instance, table)
                return entries if isinstance(entries, str) else str(len(entries))
            case ["flush", election, instance]:
                return self.flush(election, instance)
            case ["kernel"]:
                return kernel()
            case ["a" | "b" | "c" as client, *rest]:
                return self.client(client, rest)
        raise Failure(f"nobody knows what to do with: {' '.join(words)}")

    def client(self, client: str, words: list[str]) -> str:
        if client not in self.streams:
            self.streams[client] = Stream()
        stream = self.streams[client]
        match words:
            case ["open"]:
                return "ok"
            case ["close"]:
                return self.streams.pop(client).close()
            case ["params", *numbers]:
                return stream.ask(gribi.ModifyRequest(params=params(*numbers)))
            case ["elect", number]:
                answer = stream.ask(gribi.ModifyRequest(election_id=gribi.Uint128(low=int(number))))
                stream.election = int(number)
                return answer
            case ["primary", number, *ack]:
                said = f"params 1 1 {0 if ack else 1}"
                return self.all(client, {said: "ok", f"elect {number}": number})
            case ["two", *ack]:
                self.client(client, ["primary", "1", *ack])
                return self.all(client, dict.fromkeys(TWO, "RIB_PROGRAMMED" if ack else "FIB_PROGRAMMED"))
            case ["request", *fields]:
                return stream.ask(request(fields, stream.election or 1))
            case ["fill", number]:
                lines = [f"add nh {it} 192.0.2.{2 + it % 250}" for it in range(1, int(number) + 1)]
                answers = Counter(self.client(client, it.split()) for it in lines)
                return " ; ".join(f"{count} {answer}" for answer, count in sorted(answers.items()))
            case ["batch", *rest]:
                parts = " ".join(rest).split(" ; ")
            case _:
                parts = [" ".join(words)]
        operations = [operation(part.split(), stream.election, it) for it, part in enumerate(parts, 1)]
        return stream.ask(gribi.ModifyRequest(operation=operations))

    def all(self, client: str, expected: dict[str, str]) -> str:
        for line, answer in expected.items():
            answered = self.client(client, line.split())
            if answered != answer:
                raise Failure(f"{line}: {answered}")
        return "ok"

    def get(self, instance: str, table: str) -> list[gribi.AFTEntry] | str:
        request = gribi.GetRequest(aft=gribi.AFTType.Value(table))
        if instance.startswith("name="):
            request.name = instance.removeprefix("name=")
        elif instance == "all":
            request.all.SetInParent()
        try:
            answers = self.stub.Get(request, timeout=PATIENCE_SECS, wait_for_ready=True)
            return [it for answer in answers for it in answer.entry]
        except grpc.RpcError as ended:
            return error(ended)

    def flush(self, election: str, instance: str) -> str:
        request = gribi.FlushRequest()
        if election.startswith("id="):
            request.id.SetInParent()
            request.id.low = int(election.removeprefix("id="))
        elif election == "override":
            request.override.SetInParent()
        if instance.startswith("name="):
            request.name = instance.removeprefix("name=")
        elif instance == "all":
            request.all.SetInParent()
        try:
            answer = self.stub.Flush(request, timeout=PATIENCE_SECS, wait_for_ready=True)
        except grpc.RpcError as ended:
            return error(ended)
        return gribi.FlushResponse.Result.Name(answer.result)


def run(program: str, case: Case) -> None:
    agent = Agent(program)
    try:
        script = Run()
        try:
            script.script(case)
        finally:
            script.end()
    finally:
        agent.stop()


def main() -> int:
    program = sys.argv[1]
    cable()
    failed = 0
    for table in ("compliance.txt", "cases.txt"):
        passed, skipped = 0, []
        for case in read(Path(__file__).parent / table):
            if RECORDED.intersection(line.split()[0] for line in case.lines):
                skipped.append(case.name)
                continue
            try:
                run(program, case)
                passed += 1
            except Failure as failure:
                failed += 1
                print(f"FAIL {table}: {case.name}: {failure}", flush=True)
        left_out = f"; a recorded forwarding plane only: {'; '.join(skipped)}" if skipped else ""
        print(f"     {table}: {passed} cases pass{left_out}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
