"""Settings that every test shares."""

import http.server
import os
import threading
from pathlib import Path

# Before torch starts its threads: small tensors on several threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

try:
    import torch
except ModuleNotFoundError:  # the formulas are tested without torch, too
    pass
else:
    torch.set_num_threads(1)

# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")


@pytest.fixture
def serve():
    """Serve a folder, and a probe page with it."""
    servers = []

    def start(folder: Path, probe: str = "") -> str:
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self):
                if self.path != "/probe":
                    return super().do_GET()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(probe.encode())

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
