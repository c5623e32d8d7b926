"""Paths that are, and are not, a vllm-omni tree."""

import shutil

import pytest

from omni_verify.errors import TargetUnusableError
from omni_verify.targets.vllm_omni.tree import find_root, read_version


def test_root_and_package_folder_both_work(small_tree):
    assert find_root(small_tree, "t") == small_tree
    assert find_root(small_tree / "vllm_omni", "t") == small_tree


@pytest.mark.parametrize("name", ["absent", "file.txt", "empty", "thing.whl"])
def test_what_is_no_tree_is_explained(tmp_path, name):
    path = tmp_path / name
    if path.suffix:
        path.write_text("x")
    elif name == "empty":
        path.mkdir()
    told = {
        "absent": "does not exist",
        "file.txt": "is a file",
        "empty": "no folder vllm_omni",
        "thing.whl": "python -m zipfile -e",
    }
    with pytest.raises(TargetUnusableError, match=told[name]):
        find_root(path, "vllm-omni@x")


def test_the_missing_file_of_a_partial_tree_is_named(small_tree):
    (small_tree / "vllm_omni" / "data_entry_keys.py").unlink()
    with pytest.raises(TargetUnusableError, match=r"lacks vllm_omni/data_entry_keys\.py"):
        find_root(small_tree, "vllm-omni@x")


def test_version_comes_from_metadata_then_from_the_generated_file(small_tree):
    assert read_version(small_tree) == "7.8.9"
    (small_tree / "vllm_omni-1.2.3.dist-info").mkdir()
    assert read_version(small_tree) == "1.2.3"
    shutil.rmtree(small_tree / "vllm_omni-1.2.3.dist-info")
    (small_tree / "vllm_omni" / "_version.py").unlink()
    assert read_version(small_tree) == ""
