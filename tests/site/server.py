"""A server for the pages that a browser opens in tests."""

import contextlib
import http.server
import re
import threading
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
# Single files that Sphinx puts beside the scripts.
BESIDE = {Path(name).name: ROOT / name for name in SETTINGS["html_static_path"][1:]}


class Server(http.server.ThreadingHTTPServer):
    """A server that lets many requests wait until a busy machine comes to them; others lose some.

    What a page shows late, pictures and fonts and scripts, comes as late as `late` seconds say. A
    probe is a page beside those of the folder.
    """

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, folder: Path, probe: str = "", late: float = 0.0):
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

            def translate_path(self, path):
                found = Path(super().translate_path(path))
                return str(found if found.exists() else BESIDE.get(found.name, found))

            def handle(self):
                # A browser that leaves a page drops what it still waits for.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def log_message(self, *arguments):
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def start(self) -> str:
        """Serve from now on, beside what else is done; the address of the folder."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{self.server_port}/"
