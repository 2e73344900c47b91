"""Messages of gRIBI from and to the words of the tables. Knows nothing of streams."""

from __future__ import annotations

from gribi import gribi_aft_pb2 as aft
from gribi import gribi_pb2 as gribi
from gribi.ywrapper_pb2 import BytesValue, StringValue, UintValue

VERBS = {
    "add": gribi.AFTOperation.ADD,
    "replace": gribi.AFTOperation.REPLACE,
    "delete": gribi.AFTOperation.DELETE,
    "invalid": gribi.AFTOperation.INVALID,
}


def params(redundancy: str, persistence: str, ack_type: str) -> gribi.SessionParameters:
    """Numbers, for some of them are ones that nobody knows."""
    it = gribi.SessionParameters()
    it.redundancy = int(redundancy)  # type: ignore[assignment]
    it.persistence = int(persistence)  # type: ignore[assignment]
    it.ack_type = int(ack_type)  # type: ignore[assignment]
    return it


def request(fields: list[str], election: int) -> gribi.ModifyRequest:
    """One request with these fields."""
    it = gribi.ModifyRequest()
    if "params" in fields:
        it.params.CopyFrom(params("1", "1", "1"))
    if "election" in fields:
        it.election_id.low = election
    if "operation" in fields:
        it.operation.append(operation(["add", "nh", "1", "192.0.2.2"], election, 1))
    return it


def operation(words: list[str], election: int, number: int) -> gribi.AFTOperation:
    """A verb, an entry, and options."""
    options = dict(word.split("=", 1) for word in words if "=" in word)
    verb, *said = (word for word in words if "=" not in word)
    it = gribi.AFTOperation(id=number, op=VERBS[verb], network_instance=options.get("ni", "DEFAULT"))
    low = options.get("id", str(election))
    if low != "none":
        it.election_id.low = int(low)
        it.election_id.SetInParent()
    add_entry(it, said, options)
    return it


def add_entry(it: gribi.AFTOperation, words: list[str], options: dict[str, str]) -> None:
    given = [word if word != "-" else "" for word in words]
    match given:
        case ["nothing"]:
            pass
        case ["nh", index, *rest]:
            it.next_hop.CopyFrom(aft.Afts.NextHopKey(index=int(index), next_hop=next_hop(rest, options)))
        case ["nhg", number, *members]:
            it.next_hop_group.CopyFrom(aft.Afts.NextHopGroupKey(id=int(number), next_hop_group=group(members, options)))
        case ["pfe", index, destination, used]:
            it.policy_forwarding_entry.index = int(index)
            policy = it.policy_forwarding_entry.policy_forwarding_entry
            if destination:
                policy.ip_prefix.value = destination
            policy.next_hop_group.value = int(used)
            policy.next_hop_group_network_instance.value = "DEFAULT"
        case ["mpls", label, *rest]:
            it.mpls.label_uint64 = int(label)
            it.mpls.label_entry.CopyFrom(aft.Afts.LabelEntry(next_hop_group=uint(rest)))
        case [prefix, *rest] if ":" in prefix:
            it.ipv6.prefix = prefix
            it.ipv6.ipv6_entry.CopyFrom(
                aft.Afts.Ipv6Entry(
                    next_hop_group=uint(rest),
                    entry_metadata=metadata(options),
                    next_hop_group_network_instance=text(options.get("gni")),
                )
            )
        case [prefix, *rest]:
            it.ipv4.prefix = prefix
            it.ipv4.ipv4_entry.CopyFrom(
                aft.Afts.Ipv4Entry(
                    next_hop_group=uint(rest),
                    entry_metadata=metadata(options),
                    next_hop_group_network_instance=text(options.get("gni")),
                )
            )


def uint(words: list[str]) -> UintValue | None:
    return UintValue(value=int(words[0])) if words and words[0] else None


def text(value: str | None) -> StringValue | None:
    return StringValue(value=value) if value else None


def metadata(options: dict[str, str]) -> BytesValue | None:
    return BytesValue(value=options["meta"].encode()) if "meta" in options else None


def next_hop(words: list[str], options: dict[str, str]) -> aft.Afts.NextHop:
    it = aft.Afts.NextHop()
    address, interface = [*words, "", ""][:2]
    if address:
        it.ip_address.value = address
    if interface:
        it.interface_ref.interface.value = interface
    if "labels" in options:
        it.pushed_mpls_label_stack.add(pushed_mpls_label_stack_uint64=int(options["labels"]))
    return it


def group(members: list[str], options: dict[str, str]) -> aft.Afts.NextHopGroup:
    it = aft.Afts.NextHopGroup()
    for member in members:
        index, weight = member.split(":")
        key = it.next_hop.add(index=int(index))
        # A zero is given too.
        key.next_hop.weight.SetInParent()
        key.next_hop.weight.value = int(weight)
    if "backup" in options:
        it.backup_next_hop_group.value = int(options["backup"])
    return it


def response(it: gribi.ModifyResponse) -> str:
    if it.HasField("election_id"):
        return str(it.election_id.low)
    if it.HasField("session_params_result"):
        return gribi.SessionParametersResult.Status.Name(it.session_params_result.status).lower()
    return " ; ".join(
        f"{gribi.AFTResult.Status.Name(result.status)} {result.error_details.error_message}".rstrip() for result in it.result
    )


def entry(it: gribi.AFTEntry) -> str:
    match it.WhichOneof("entry"):
        case "next_hop":
            hop = it.next_hop.next_hop
            words = [f"next hop {it.next_hop.index}", hop.ip_address.value, hop.interface_ref.interface.value]
        case "next_hop_group":
            members = it.next_hop_group.next_hop_group.next_hop
            words = [f"group {it.next_hop_group.id}", *(f"{one.index}:{one.next_hop.weight.value}" for one in members)]
            backup = it.next_hop_group.next_hop_group.backup_next_hop_group.value
            words += [f"backup {backup}"] if backup else []
        case "policy_forwarding_entry":
            policy = it.policy_forwarding_entry.policy_forwarding_entry
            index = it.policy_forwarding_entry.index
            words = [it.network_instance, f"policy {index}", policy.ip_prefix.value or "-", str(policy.next_hop_group.value)]
        case "ipv6":
            six = it.ipv6.ipv6_entry
            words = [it.ipv6.prefix, str(six.next_hop_group.value), six.entry_metadata.value.decode()]
        case _:
            four = it.ipv4.ipv4_entry
            words = [it.ipv4.prefix, str(four.next_hop_group.value), four.entry_metadata.value.decode()]
    if it.fib_status != gribi.AFTEntry.PROGRAMMED:
        words.append("inactive")
    return " ".join(word for word in words if word)
