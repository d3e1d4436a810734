"""Settings that every test shares."""

import contextlib
import http.server
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

# Small tensors on several threads wait for each other. torch reads this when it is imported, which
# takes seconds: the tests of the site do without.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")


@pytest.fixture(scope="session")
def site() -> Path:
    """Find the folder of the built site: the one that NORMTUTOR_SITE names, or build one."""
    if folder := os.environ.get("NORMTUTOR_SITE"):
        return ROOT / folder
    # Processes that test side by side must not build into one folder.
    output = ROOT / "_build" / f"checked{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    subprocess.run(
        [
            *(sys.executable, ROOT / ".ci" / "build.py", "--clean"),
            *("--executed", ROOT, "--output", output),
        ],
        check=True,
    )
    return output / "_build" / "html"


@pytest.fixture(scope="session")
def serve():
    """Serve a folder, and a probe page with it; the address of the folder.

    What a page shows late, pictures and fonts and scripts, comes as late as `late` seconds say.
    """
    servers = []

    def start(folder: Path, probe: str = "", late: float = 0.0) -> str:
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self):
                if self.path != "/probe":
                    if not re.search(r"(\.html|\.css|/)(\?|$)", self.path):
                        time.sleep(late)
                    return super().do_GET()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(probe.encode())

            def handle(self):
                # A browser that leaves a page drops what it still waits for.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
