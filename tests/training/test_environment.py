"""A commit is named only where it is this package's."""

import importlib.util
import shutil
import subprocess

import pytest

from wam_jax.training import environment


@pytest.fixture
def installed(tmp_path):
    """The module's copy inside of a repository of something else, and a way to run git there."""
    package = tmp_path / "site"
    package.mkdir()
    shutil.copy(environment.__file__, package / "environment.py")
    spec = importlib.util.spec_from_file_location("installed_environment", package / "environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "of another project")
    return module, git


def test_an_installed_package_has_no_commit(installed):
    module, _ = installed
    assert module.git_state() is None


def test_a_tracked_one_has_its_own_and_says_whether_it_was_changed(installed):
    module, git = installed
    git("add", "-A")
    git("commit", "-m", "with the package")
    state = module.git_state()
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    git("mv", "site/environment.py", "site/other.py")
    assert module.git_state() is None


def test_outside_of_a_repository_there_is_none(installed, tmp_path, monkeypatch):
    module, _ = installed
    shutil.rmtree(tmp_path / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert module.git_state() is None
