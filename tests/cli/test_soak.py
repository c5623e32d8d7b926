"""``omni-verify soak`` with options that cannot be: one message before anything runs, and nothing left."""

import signal

import pytest

from omni_verify.cli.main import main


@pytest.fixture
def refused(tmp_path, capsys, monkeypatch):
    """Run a command line that must be refused; returns the message."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command's own handling of SIGTERM
    monkeypatch.chdir(tmp_path)

    def go(*args):
        assert main(["soak", *args]) == 2
        out, err = capsys.readouterr()
        assert out == "" and "Traceback" not in err and "internal error" not in err
        assert not list(tmp_path.iterdir()), "something was left"
        return err

    return go


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mix", "normal=70,early-stop=5"], ["'early-stop'", "'stop-early'"]),
        (["--mix", "normal=1,least=inf"], ["whole number", "'inf'"]),
        (["--requests", "10", "--duration", "5s"], ["--requests", "--duration"]),
        (["--requests", "9" * 23], ["--requests", "between"]),
        (["--rate", "inf", "--requests", "5"], ["--rate", "between"]),
        (["--seed", "9" * 23, "--requests", "5"], ["--seed", "between"]),
        (["--concurrency", "100000", "--requests", "5"], ["--concurrency", "10,000"]),
        (["--quiesce-every", "9" * 23, "--requests", "5"], ["--quiesce-every"]),
        (["--nemeses", "leak:²", "--requests", "5"], ["leak:1024"]),
        (["--nemeses", "leak:9999999999", "--requests", "5"], ["leak:1024"]),
        (["--url", "http://localhost:99999"], ["--url", "http://HOST:PORT"]),
        (["--url", "http://["], ["--url"]),
        (["--url", "http://localhost:1/v1/chat"], ["--url", "HOST:PORT"]),
        (["--url", "http://localhost:1", "--endpoint", "spech"], ["'speech'"]),
        (["--url", "http://localhost:1", "--stages", "3"], ["--stages", "--url"]),
        (["--url", "http://localhost:1", "-t", "reference"], ["--target", "--url"]),
        (["--url", "http://localhost:1", "--nemeses", "put-raises"], ["put-raises", "sigkill"]),
        (["--url", "http://localhost:1", "--nemeses", "sigstop"], ["--pid"]),
        (["--pid", "1", "--requests", "5"], ["--pid", "--url"]),
        (["--endpoint", "speech", "--requests", "5"], ["--endpoint", "--url"]),
        (["--target", "nonsense", "--requests", "5"], ["nonsense", "reference"]),
        (["--target", "vllm-omni@caf\udce9", "--requests", "5"], ["printable"]),
        (["--isolation", "moutn", "--requests", "5"], ["'mount'"]),
        (["--json", "/proc/x/y.json", "--requests", "5"], ["cannot write"]),
        (["--json", "", "--requests", "5"], ["names no file"]),
        (["--export", "/proc/x/y.csv", "--requests", "5"], ["cannot write"]),
        (["--export", "x.txt", "--requests", "5"], [".parquet"]),
        (["--resume", "nothing"], ["no folder of a soak"]),
        (["--resume", "."], ["checkpoint.json"]),
        (["--resume", ".", "--mix", "normal", "-c", "3"], ["leave out --mix, --concurrency"]),
        (["--resume", ".", "--no-store"], ["leave out --no-store"]),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(refused, args, words):
    message = refused(*args)
    for word in words:
        assert word in message, message
