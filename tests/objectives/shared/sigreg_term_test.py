import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.sigreg_term import SigRegTerm
from socialjepa_jax.sharding import Reduce


def test_directions_can_be_kept():
    """Kept directions depend on the agent alone, resampled ones on the step's key."""
    z = jax.random.normal(jax.random.key(0), (24, 2, 6)) ** 2
    keys = jax.random.split(jax.random.key(1))

    def penalty(settings, key, seed):
        return float(settings.sigreg_loss(z, key, {"seed": jnp.uint32(seed)}, Reduce()))

    new, kept = (SigRegTerm(sigreg_slices=4, sigreg_resample=on) for on in (True, False))
    assert penalty(new, keys[0], 0) != penalty(new, keys[1], 0)
    assert penalty(kept, keys[0], 0) == penalty(kept, keys[1], 0)
    assert penalty(kept, keys[0], 0) != penalty(kept, keys[0], 1)
