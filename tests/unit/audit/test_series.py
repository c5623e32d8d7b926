"""A series survives the death of its writer, and says what is wrong with a file that is none."""

import resource
import signal

import pytest

from omni_verify.audit.series import Sample, SeriesWriter, UnwritableError, read_series
from omni_verify.errors import UsageError


def _sample(seconds):
    return Sample(seconds=seconds, phase="load", completed=int(seconds), figures={"stage0.rss": 1.5})


def test_what_was_appended_is_read_back(tmp_path):
    path = tmp_path / "series.jsonl"
    with SeriesWriter(path, {"target": "reference"}) as writer:
        writer.append(_sample(1.0))
    with SeriesWriter(path, {"target": "another"}) as writer:
        writer.append(_sample(2.0))
    series = read_series(path)
    assert series.facts == {"target": "reference"}
    assert series.samples == (_sample(1.0), _sample(2.0))
    assert series.names() == ("stage0.rss",)
    assert not series.is_torn


def test_a_torn_last_line_is_reported_and_a_writer_goes_on_before_it(tmp_path):
    path = tmp_path / "series.jsonl"
    with SeriesWriter(path, {}) as writer:
        writer.append(_sample(1.0))
        writer.append(_sample(2.0))
    path.write_bytes(path.read_bytes()[:-7])
    assert read_series(path).is_torn
    assert read_series(path).samples == (_sample(1.0),)
    with SeriesWriter(path, {}) as writer:
        writer.append(_sample(3.0))
    assert read_series(path).samples == (_sample(1.0), _sample(3.0))
    assert not read_series(path).is_torn


def test_a_sample_is_on_disk_before_the_writer_is_closed(tmp_path):
    path = tmp_path / "series.jsonl"
    writer = SeriesWriter(path, {})
    writer.append(_sample(1.0))
    assert read_series(path).samples == (_sample(1.0),)
    writer.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a series"),
        (b"{}\n", "is not a series"),
        (b"[1]\n", "is not a series"),
        (b'{"series":1,"facts":null}\n', "is not a series"),
        (b"\xff\xfe\n", "is not a series"),
        (b'{"series":1,"facts":{}}\n{"phase":"\xff"}\n', "line 2 is not a sample"),
        (b'{"series":1,"facts":{}}\nnot json\n', "line 2 is not a sample"),
        (b'{"series":1,"facts":{}}\n{"phase":"load"}\n', "line 2 is not a sample"),
    ],
)
def test_a_file_that_is_no_series_is_refused(tmp_path, content, said):
    path = tmp_path / "series.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_series(path)


@pytest.mark.parametrize("content", [b"mine\n", b"mine", b"mine\nand more", b'{"series":1,"facts":{}}'])
def test_a_writer_leaves_a_foreign_file_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        SeriesWriter(path, {})
    assert path.read_bytes() == content


def test_a_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_series(tmp_path / "none.jsonl")


def test_a_full_disk_is_said_and_leaves_whole_lines(tmp_path):
    path = tmp_path / "series.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = SeriesWriter(path, {})
    writer.append(Sample(seconds=1.0, phase="load"))
    size = path.stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
        for _ in range(2):
            with pytest.raises(UnwritableError, match=r"cannot write .*--resume"):
                writer.append(Sample(seconds=2.0, phase="load"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.stat().st_size == size
    writer.append(Sample(seconds=3.0, phase="load"))
    writer.close()
    series = read_series(path)
    assert [s.seconds for s in series.samples] == [1.0, 3.0] and not series.is_torn
