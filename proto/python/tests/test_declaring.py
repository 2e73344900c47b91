"""A large fabric is declared while the leader dies. The program of the replicas is in the variable WEFTD."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import threading
import unittest

from weft import Client
from weft.v1 import fabric_pb2

PLACE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "lab.py"
specification = importlib.util.spec_from_file_location("lab", PLACE)
assert specification is not None and specification.loader is not None
lab = importlib.util.module_from_spec(specification)
specification.loader.exec_module(lab)

HOSTS = 20_000


class Declaring(unittest.TestCase):
    def test_a_fabric_is_whole_though_its_leader_dies_meanwhile(self) -> None:
        with lab.lab(os.environ["WEFTD"]) as replicas, Client(replicas.addresses) as client:
            for death in range(3):
                hosts = [fabric_pb2.Host(name=f"h{at}", labels={"rack": str(death)}) for at in range(HOSTS)]
                dying = replicas.leader(client)
                threading.Timer(0.1 * (death + 1), dying.kill).start()
                client.apply_fabric("large", hosts=hosts)
                dying.process.wait()
                # Nothing of it is missing, and nobody declares any more.
                self.assertEqual(client.apply_fabric("large", hosts=hosts).changes, [])
                dying.start()


if __name__ == "__main__":
    unittest.main()
