"""Figures from outside, latencies and exports."""

import csv
import json
import math
import os
import random
import subprocess
import sys

import pytest

from omni_verify.audit.sampler import memory_of, process_figures, shm_figures
from omni_verify.audit.sampler_export import export_series, exporter_of
from omni_verify.audit.sampler_latency import Histogram
from omni_verify.audit.series import Sample, Series
from omni_verify.audit.shm import Entry, Listing
from omni_verify.errors import TargetUnusableError, UsageError


def test_a_process_is_measured_with_its_descriptors_and_children():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        before = process_figures({"me": os.getpid()})
        files = [open(os.devnull) for _ in range(7)]  # noqa: SIM115
        after = process_figures({"me": os.getpid(), "gone": 2**22 + 1})
        for file in files:
            file.close()
    finally:
        child.communicate(b"\n")
    assert after["me.fds"] - before["me.fds"] == 7
    assert after["me.children"] >= 1 and after["me.pid"] == os.getpid()
    assert 0 < after["me.uss"] <= after["me.pss"] * 1.01 <= after["me.rss"] * 1.02
    assert not any(name.startswith("gone.") for name in after)


def test_memory_that_is_written_shows_as_unshared():
    before = memory_of(os.getpid())["uss"]
    block = bytearray(os.urandom(1)) * (8 << 20)
    grown = memory_of(os.getpid())["uss"] - before
    assert len(block) == 8 << 20 and grown > 6 << 20


def test_shared_memory_is_counted_by_kind():
    entries = (
        Entry("a_1_0", "segment", "a_1_0", 100, 3.0, 1),
        Entry("a_1_1", "segment", "a_1_1", 50, 9.0, 2),
        Entry("shm_a_1_0_lockfile.lock", "lock", "a_1_0", 0, 3.0, 3),
        Entry("w/1_x", "fifo", "", 0, 30.0, 4),
        Entry("w/spare_7_x", "spare", "", 1 << 20, 1.0, 5),
    )
    values = shm_figures(Listing(prefix="a", entries=entries, foreign=("psm_1",)))
    assert values == {
        "shm.segments": 2,
        "shm.locks": 1,
        "shm.fifos": 1,
        "shm.journals": 0,
        "shm.spares": 1,
        "shm.foreign": 1,
        "shm.bytes": 150,
        "shm.oldest_s": 9.0,
    }


def test_percentiles_are_within_one_percent():
    dice = random.Random(5)
    values = sorted(dice.lognormvariate(-4, 1.5) for _ in range(20_000))
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    for percent in (50.0, 90.0, 99.0, 99.9):
        exact = values[math.ceil(len(values) * percent / 100) - 1]
        assert exact * 0.999 <= histogram.percentile(percent) <= exact * 1.01 + 1e-6
    again = Histogram(histogram.counts())
    assert again.percentile(99.0) == histogram.percentile(99.0) and again.total == 20_000
    assert math.isnan(Histogram().percentile(50)) and Histogram().figures("x") == {}


@pytest.fixture
def series():
    samples = (
        Sample(seconds=0.0, phase="load", figures={"stage0.rss": 5.0}),
        Sample(seconds=1.0, phase="idle", started=3, quiescent=True, figures={"shm.segments": 0.0}),
    )
    return Series(facts={"command": "soak"}, samples=samples)


def test_csv_has_a_column_for_each_figure_and_an_empty_cell_where_there_is_none(series, tmp_path):
    export_series(series, tmp_path / "s.csv")
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    assert rows[0]["stage0.rss"] == "5.0" and rows[0]["shm.segments"] == ""
    assert rows[1]["shm.segments"] == "0.0" and rows[1]["started"] == "3" and rows[1]["quiescent"] == "True"


def test_json_has_facts_and_samples(series, tmp_path):
    export_series(series, tmp_path / "s.json")
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["facts"] == {"command": "soak"} and len(found["samples"]) == 2


def test_another_ending_and_a_missing_library_are_told_before_the_run(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"\.csv"):
        exporter_of(tmp_path / "s.xls")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TargetUnusableError, match=r"omni-verify\[parquet\]"):
        exporter_of(tmp_path / "s.parquet")


def test_parquet_holds_the_same(series, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_series(series, tmp_path / "s.parquet")
    table = parquet.read_table(tmp_path / "s.parquet").to_pydict()
    assert table["stage0.rss"] == [5.0, None] and table["phase"] == ["load", "idle"]
