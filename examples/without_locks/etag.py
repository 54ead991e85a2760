"""Two programs change the same document of a web server. `If-Match` keeps both changes, without a lock.

Each reads the document, adds a line, and sends the whole document back. Without a condition, the second PUT
replaces the first. The cure is HTTP's own: the answer to GET has an ETag, a name for this version; a PUT
with `If-Match: ETag` changes the document only if it still has that version. Otherwise the answer is 412:
read again. The server compares and writes in one statement. A server can insist on If-Match, with status
428.

Run it: python examples/without_locks/etag.py
"""

import sqlite3
import tempfile
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Documents(BaseHTTPRequestHandler):
    """A server with one document."""

    file: Path

    def do_GET(self) -> None:
        with closing(sqlite3.connect(self.file)) as stored:
            text, version = stored.execute("SELECT text, version FROM document").fetchone()
        self._answer(200, text, f'"{version}"')

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        condition = self.headers["If-Match"] or "*"  # in HTTP, "*" is any version
        change = """UPDATE document SET text = ?, version = version + 1
            WHERE ? IN ('*', '"' || version || '"')"""
        with closing(sqlite3.connect(self.file, timeout=60)) as stored, stored:
            changed = stored.execute(change, (text, condition)).rowcount == 1
        self._answer(200 if changed else 412)

    def _answer(self, status: int, text: str = "", etag: str = "") -> None:
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def ask(port: int, method: str, text: str = "", if_match: str = "") -> tuple[int, str, str]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, "/", text, {"If-Match": if_match} if if_match else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["ETag"]


def story(port: int) -> None:
    (_, one, _), (_, other, _) = ask(port, "GET"), ask(port, "GET")
    ask(port, "PUT", f"{one}ada ")
    ask(port, "PUT", f"{other}bob ")
    print("without If-Match:", ask(port, "GET")[1])
    (_, one, tag), (_, other, late) = ask(port, "GET"), ask(port, "GET")
    ask(port, "PUT", f"{one}cy ", if_match=tag)
    print("the second PUT with If-Match:", ask(port, "PUT", f"{other}dan ", if_match=late)[0])
    _, other, tag = ask(port, "GET")  # so read again, and add to what is there now
    ask(port, "PUT", f"{other}dan ", if_match=tag)
    print("with If-Match:", ask(port, "GET")[1])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        Documents.file = Path(name) / "documents.db"
        with closing(sqlite3.connect(Documents.file)) as stored, stored:
            stored.execute("CREATE TABLE document AS SELECT '' AS text, 1 AS version")
        with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            story(server.server_port)
            server.shutdown()
