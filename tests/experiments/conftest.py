"""Calls of an experiment's `main` inside the test's process."""

import pytest
from absl import flags


@pytest.fixture
def call_main():
    """Calls the `main` of a module with its flags set to these arguments, and undefines them."""

    def call(module, *arguments):
        before = set(flags.FLAGS)
        module.define_flags()
        try:
            flags.FLAGS(["command", *arguments])
            module.main()
        finally:
            for name in set(flags.FLAGS) - before:
                delattr(flags.FLAGS, name)

    return call
