"""A loss of the rivals on one and several devices, against its float64 reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax.sharding import ONE_DEVICE, Reduce, own_rows
from tests.objectives import rivals_oracle as oracle

DEVICES = (1, 2, 4)


def f32(tree):
    """Stays in NumPy, where no operation on inputs is compiled."""
    return jax.tree.map(lambda x: np.asarray(x, np.float32), tree)


def replaced(x, place, value):
    x = x.copy()
    x[place] = value
    return x


def f64(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


def sharded(function, num_devices):
    """Compiles function(reduce, cut, batch, *rest) of replicated arrays for a number of devices.

    `cut` returns a shard's rows of the arrays [B, ...] of the batch.
    """
    if num_devices == 1:
        return jax.jit(functools.partial(function, ONE_DEVICE, lambda batch: batch))
    devices = jax.devices()[:num_devices]
    assert len(devices) == num_devices
    mesh = jax.make_mesh((num_devices,), ("rows",), devices=devices, axis_types=(AxisType.Auto,))
    cut = functools.partial(own_rows, axis_name="rows")
    body = functools.partial(function, Reduce("rows"), cut)
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P()))


def slope_of(reference, name, batch, whole, settings):
    """The reference's gradient with respect to one array of `batch` or `whole`."""

    def moved(x):
        arrays = [{**part, name: x} if name in part else part for part in (batch, whole)]
        return reference(*arrays, settings)

    return oracle.gradient(moved, {**batch, **whole}[name])


class Loss:
    """Value and gradients of function(reduce, batch, whole, settings), compiled once for each use.

    Attributes:
        traces: how often the function was traced.
    """

    def __init__(self, function):
        self.function, self.traces = function, 0
        self._on, self._slopes = {}, {}

    def _counted(self, reduce, *arguments):
        self.traces += 1
        return self.function(reduce, *arguments)

    @functools.cached_property
    def value(self):
        """(batch, whole, settings) -> value, on one device."""
        return jax.jit(functools.partial(self._counted, ONE_DEVICE))

    def on(self, num_devices):
        """(batch, whole, settings) -> value, gradients of batch and whole."""
        if num_devices in self._on:
            return self._on[num_devices]

        def value_and_grad(reduce, cut, batch, whole, settings):
            def of_global(batch, whole):
                return self._counted(reduce, cut(batch), whole, settings)

            return jax.value_and_grad(of_global, argnums=(0, 1))(batch, whole)

        return self._on.setdefault(num_devices, sharded(value_and_grad, num_devices))

    def check(self, num_devices, reference, constants, batch, whole, settings):
        """Holds value and gradients to reference(batch, whole, settings) in float64.

        Arrays named in `constants` must have no gradient at all.
        """
        value, (of_batch, of_whole) = self.on(num_devices)(batch, whole, settings)
        batch, whole, settings = f64((batch, whole, settings))
        np.testing.assert_allclose(value, reference(batch, whole, settings), rtol=2e-6)
        for name, slope in {**of_batch, **of_whole}.items():
            assert slope.dtype == jnp.float32
            if name in constants:
                assert not np.any(slope), name
                continue
            if (reference, name) not in self._slopes:  # the same for any number of devices
                self._slopes[reference, name] = slope_of(reference, name, batch, whole, settings)
            expected = self._slopes[reference, name]
            atol = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(slope, expected, rtol=0, atol=atol, err_msg=name)

    def check_bfloat16(self, batch, whole, settings):
        """Holds the loss of bfloat16 arrays to that of the same numbers in float32."""
        rounded = jax.tree.map(lambda x: x.astype(jnp.bfloat16), (batch, whole))
        value = self.value(*rounded, settings)
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, self.on(1)(*f32(rounded), settings)[0], rtol=1e-6)

    def finite(self, batch, whole, settings):
        """Returns the value on one device, where it and its gradients are finite."""
        value, grads = self.on(1)(batch, whole, settings)
        for x in jax.tree.leaves((value, grads)):
            assert np.all(np.isfinite(x))
        return float(value)

    def check_compiled_once(self, batch, whole, settings):
        """Holds that other values, also of the settings, take the program that there is."""
        before = self.on(1)(batch, whole, settings)[0]
        traces = self.traces
        batch, whole, settings = f32(
            jax.tree.map(lambda x: 1.1 * x + 0.01, (batch, whole, settings))
        )
        assert self.on(1)(batch, whole, settings)[0] != before
        assert self.traces == traces
