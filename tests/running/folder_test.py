"""Folders that others may write to, on disks that may be full."""

import errno
import os
import pathlib
import shutil

import pytest

from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.records import write_atomically, write_json
from socialjepa_jax.running import folder, workdir
from socialjepa_jax.running.writers import Writer


@pytest.fixture
def victim(tmp_path):
    """A file that links may lead to and nothing may change."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious" and not path.is_symlink()


def test_a_planted_lock_is_refused(tmp_path, victim):
    run = tmp_path / "run"
    run.mkdir()
    (run / "lock").symlink_to(victim)
    with pytest.raises(InputError, match=r"symbolic links .*/lock"), workdir.locked(run):
        pass


def test_planted_temporary_names_are_replaced_and_not_followed(tmp_path, victim):
    for name in ("config.json", ".probe", "performance.json"):
        (tmp_path / f"{name}.tmp").symlink_to(victim)
        write_json(tmp_path / name, [1])
        assert (tmp_path / name).read_text() == "[\n  1\n]\n"
        assert not os.path.lexists(tmp_path / f"{name}.tmp")


def test_a_log_is_not_written_through_a_link(tmp_path, victim):
    log = tmp_path / "metrics.jsonl"
    for name in (log.name, f"{log.name}.tmp", f"{log.name}.damaged.tmp"):
        log.write_text('{"step": 2, "kind": "train"}\n{"step": 3, "ki\n')
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(victim)
        with Writer(tmp_path, 4, 10) as writer:
            writer.write(5, "train", {"loss": 1.0})
    with pytest.raises(OSError) as refused:
        folder.open_own(_link(tmp_path / "link", victim), os.O_APPEND)
    assert refused.value.errno == errno.ELOOP


def _link(path, target):
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("place", ["latents/agent_0.npz", "checkpoints", "r.html", "tensorboard/x"])
def test_links_and_pipes_in_a_workdir_are_refused(tmp_path, victim, place):
    path = tmp_path / "run" / place
    for plant, kind in ((lambda: path.symlink_to(victim), "a symbolic link"),
                        (lambda: path.symlink_to(tmp_path / "none"), "a symbolic link"),
                        (lambda: path.symlink_to(tmp_path), "a symbolic link"),
                        (lambda: os.mkfifo(path), "no regular file")):  # fmt: skip
        path.parent.mkdir(parents=True)
        plant()
        with (
            pytest.raises(InputError, match=f"{place} is {kind}"),
            workdir.locked(tmp_path / "run"),
        ):
            pass
        shutil.rmtree(tmp_path / "run")


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a", b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (errno.ENOSPC, None),
        (errno.EDQUOT, None),
        (errno.EFBIG, None),
        (errno.EROFS, "/elsewhere/latents.npz"),
        (errno.EACCES, "{workdir}/latents/agent_0.npz"),
    ],
)
def test_a_disk_that_takes_nothing_more_stops_a_run(tmp_path, number, name):
    path = name and name.replace("{workdir}", str(tmp_path))
    with pytest.raises(
        Stopped, match=rf"{path or tmp_path} cannot be written: {os.strerror(number)}"
    ):
        with folder.stopping(tmp_path):
            raise OSError(number, os.strerror(number), path)


def test_errors_of_other_files_keep_their_type(tmp_path):
    for error in (
        FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere"),
        ConnectionError(errno.ECONNRESET, "reset"),
        OSError("broken data stream when reading image file"),
    ):
        with pytest.raises(type(error)) as passed, folder.stopping(tmp_path):
            raise error
        assert passed.value is error


def test_a_moved_or_removed_workdir_is_noticed(tmp_path):
    for leave in (lambda path: path.rename(tmp_path / "moved"), shutil.rmtree):
        run = tmp_path / "run"
        with pytest.raises(Stopped, match="run was moved or removed"), workdir.locked(run) as check:
            check()
            leave(run)
            run.mkdir()  # the next start's
            (run / "lock").write_text("")
            check()
        shutil.rmtree(run)
    with pytest.raises(Stopped, match="run was removed"), folder.stopping(run):
        pathlib.Path(run / "alignment.json").write_text("")


def test_files_are_kept_beside_each_other(tmp_path):
    path = tmp_path / "a.damaged"
    for expected in ("a.damaged", "a.damaged2", "a.damaged3"):
        assert folder.unused(path).name == expected
        folder.unused(path).write_text("")
