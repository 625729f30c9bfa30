import jax
import numpy as np

from socialjepa_jax.sigreg import samples

U = np.random.default_rng(0).normal(size=(3, 16, 5)).astype(np.float32)


def test_samples_on_two_devices_are_the_global_sample():
    spec = jax.sharding.PartitionSpec
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))

    def statistics(u):
        everything = samples.replicated(samples.gather(u, "data"), "data")
        return samples.mean(u, "data") * samples.count(u, "data"), everything

    sharded = jax.shard_map(statistics, mesh=mesh, in_specs=spec(None, "data"), out_specs=spec())
    total, everything = jax.jit(sharded)(U)
    np.testing.assert_allclose(total, U.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(everything, U)
