"""Ahead-of-time compilation and the cache of compiled programs."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.performance import compilation


def test_a_compiled_function_computes_the_same_and_reports_its_memory():
    function = jax.jit(lambda x, y: jnp.sin(x @ y) @ y)
    x = jnp.linspace(-1, 1, 64 * 64).reshape(64, 64)
    compiled = compilation.ahead_of_time(function, x, x)
    np.testing.assert_array_equal(compiled.call(x, x), function(x, x))
    assert compiled.argument_bytes == 2 * 4 * 64**2
    assert compiled.temporary_bytes >= 4 * 64**2  # the sine
    assert compiled.accessed_bytes >= 3 * 4 * 64**2
    assert compiled.seconds > 0 and "dot" in compiled.text()
    assert "MB of temporaries" in compiled.describe()
    with pytest.raises(TypeError):  # compiled for one shape, and not again
        compiled.call(x[:8], x)


@pytest.fixture
def settings():
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_cache_is_created_and_used(tmp_path, settings):
    compilation.use_cache(tmp_path / "a" / "b", "--out=x")
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "a" / "b")


def test_a_cache_that_cannot_be_written_is_refused(tmp_path, settings):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"--out=x: the compilation cache .*file.* cannot be"):
            compilation.use_cache(folder, "--out=x")
    assert jax.config.jax_compilation_cache_dir != str(tmp_path / "file")


def test_the_default_cache_is_for_its_user_alone(tmp_path, settings, monkeypatch, caplog):
    folder = tmp_path / "cache" / "xla"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    compilation.use_own_cache(folder, "--workdir=x")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert jax.config.jax_compilation_cache_dir == str(folder)
    compilation.use_own_cache(tmp_path / "new" / "xla", "--workdir=x")
    assert (tmp_path / "new" / "xla").stat().st_mode & 0o777 == 0o700
    used = jax.config.jax_compilation_cache_dir
    (tmp_path / "link").symlink_to(folder)
    compilation.use_own_cache(tmp_path / "link", "--workdir=x")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    compilation.use_own_cache(folder, "--workdir=x")
    assert jax.config.jax_compilation_cache_dir == used  # programs of others are not executed
    assert caplog.text.count("belongs to another user: programs are compiled anew") == 2
