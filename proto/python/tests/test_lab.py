"""The lab of the story keeps its ports."""

from __future__ import annotations

import importlib.util
import pathlib
import socket
import unittest
from unittest import mock

PLACE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "lab.py"
specification = importlib.util.spec_from_file_location("lab", PLACE)
assert specification is not None and specification.loader is not None
lab = importlib.util.module_from_spec(specification)
specification.loader.exec_module(lab)


class Ports(unittest.TestCase):
    def test_no_outgoing_connection_takes_them(self) -> None:
        ports = lab.free_ports(200)
        self.assertEqual(len(set(ports)), 200)
        self.assertLess(max(ports), 32_768)

    def test_nobody_listens_to_them(self) -> None:
        with socket.create_server(("127.0.0.1", lab.free_ports(1)[0])) as taken:
            port = taken.getsockname()[1]
            with mock.patch.multiple(lab, PORT_MIN=port, PORT_MAX=port + 1), self.assertRaises(OSError):
                lab.free_ports(1)


if __name__ == "__main__":
    unittest.main()
