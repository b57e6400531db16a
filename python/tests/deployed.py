"""A federation of fednode on this machine, for tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional

DEMO = Path(__file__).resolve().parents[2] / "deploy" / "demo"
LIMIT = 120  # seconds that a party may take


class Federation:
    """An operator, an aggregator, and the folders of a server and of clients."""

    def __init__(self, folder: Path, clients: int) -> None:
        self.folder, self.fednode, self.parties = folder, os.environ["FEDNODE"], []  # type: ignore[var-annotated]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            address = f"/ip4/127.0.0.1/tcp/{s.getsockname()[1]}"
        self.run("keygen", "operator.key")
        public = [line.split()[1] for line in self.run("keygen", "aggregator.key").splitlines() if line.startswith("public")][0]
        self.run("invite", "--operator", "operator.key", "--federation", "federation.json", "--name", "Test", "--clients", str(clients),
                 "--aggregator-key", public, "--address", address, "--out", "invitations")
        self.aggregator = self.start("aggregator", "aggregator", "--key", "aggregator.key", "--federation", "federation.json",
                                     "--tickets", "invitations/tickets.json", "--invitation", "invitations/aggregator.json",
                                     "--listen", address, "--ops", "")

    def run(self, *args: str) -> str:
        return subprocess.run([self.fednode, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def start(self, name: str, role: str, *args: str, env: Optional[Dict[str, str]] = None) -> "Party":
        party = Party(self, name, [role, *args, "--state", name], env or {})
        self.parties.append(party)
        return party

    def client(self, k: int, env: Dict[str, str], *flags: str) -> "Party":
        lines = (DEMO / "ratings.csv").read_text().splitlines()
        data = self.folder / f"ratings-{k}.csv"
        data.write_text("\n".join([lines[0], *(x for x in lines if x.split(",")[0] == str(k + 1))]) + "\n")
        return self.start(f"client-{k}", "client", "--data", data.name, "--invitation", f"invitations/client-{k}.json",
                          *flags, env=env)

    def server(self, env: Dict[str, str], **settings: object) -> "Party":
        said = {"data": DEMO / "items", "secagg": "real", "epsilon": 50, "tolerance": 0.4,
                "deployment.stage-timeout-s": 30, "deployment.gather-s": 60, **settings}
        (self.folder / "experiment.yaml").write_text("algorithm: external\n")
        flags = [x for k, v in said.items() for x in ("--set", f"{k.replace('__', '.')}={v}")]
        return self.start("server", "server", "experiment.yaml", "--invitation", "invitations/server.json", *flags, env=env)

    def __enter__(self) -> "Federation":
        return self

    def __exit__(self, *_: object) -> None:
        for party in self.parties:
            party.stop(signal.SIGKILL)


class Party:
    """A process of fednode, whose log is in a file."""

    def __init__(self, federation: Federation, name: str, args: List[str], env: Dict[str, str]) -> None:
        self.file = federation.folder / f"{name}.log"
        self.out = federation.folder / f"{name}.out"
        with open(self.file, "w") as log, open(self.out, "w") as out:
            self.process = subprocess.Popen([federation.fednode, *args], cwd=federation.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                            env={**os.environ, **env})

    @property
    def log(self) -> str:
        return self.file.read_text()

    def until(self, text: str) -> None:
        """Wait until the log has a text."""
        end = time.monotonic() + LIMIT
        while text not in self.log:
            assert time.monotonic() < end and self.process.poll() is None, f"no {text!r} in\n{self.log}"
            time.sleep(0.05)

    def wait(self) -> int:
        return self.process.wait(timeout=LIMIT)

    def stop(self, how: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=LIMIT)
