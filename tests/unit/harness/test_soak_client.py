"""What a server answers that no server should: the request fails and says why, and is never silent."""

import http.server
import threading

import pytest

from omni_verify.errors import UsageError
from omni_verify.harness.soak.client import SoakClient
from omni_verify.harness.soak.plan import Plan

WHOLE = (
    b'data: {"choices":[{"delta":{"audio":{"data":"x"}}}]}\n\n'
    b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.fixture
def ask():
    """Send one request to a server that answers with these bytes; returns what became of it."""
    answers = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answers[-1])

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def go(answer):
        answers.append(answer)
        client = SoakClient(f"http://127.0.0.1:{server.server_port}", "chat", "p-", 10.0)
        return client.run(Plan(index=0, kind="normal", chunks=1))

    yield go
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_whole_stream_is_done(ask):
    over = ask(WHOLE)
    assert (over.status, over.chunks, over.broken) == ("done", 1, [])


@pytest.mark.parametrize(
    "event",
    [
        b"[1]",
        b"3",
        b"null",
        b'{"choices":3}',
        b'{"choices":[3]}',
        b'{"choices":[{"delta":3}]}',
        b"{",
        b"\xff",
    ],
)
def test_an_event_of_another_form_fails_the_request(ask, event):
    over = ask(b"data: " + event + b"\n\n" + WHOLE)
    assert over.status == "failed" and "event" in over.error


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:1",
        "https://h",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://[",
        "http://h/v1",
        "http://a@h",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        SoakClient(url, "chat", "p-", 1.0)
