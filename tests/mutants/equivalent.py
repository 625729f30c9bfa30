"""Changes that no test can notice, with the reason; they are not counted."""

from tests.mutants.mutant import Mutant

EQUIVALENT = (
    (
        Mutant(
            "a half is not inverted",
            "socialjepa_jax/data/augment/colour.py",
            "jnp.where(image_HWC < 0.5,",
            "jnp.where(image_HWC <= 0.5,",
            (),
        ),
        "1 - 0.5 is 0.5",
    ),
    (
        Mutant(
            "the centres of averaged weights carry gradient",
            "socialjepa_jax/objectives/lejepa.py",
            "global_BGP = jax.lax.stop_gradient(average.projection)",
            "global_BGP = average.projection",
            (),
        ),
        "they depend on the carried state, by which nothing is differentiated",
    ),
    (
        Mutant(
            "an image's error is divided by its own weight",
            "socialjepa_jax/objectives/ijepa.py",
            "reduce.mean((weight_BP * error_BP).sum(1)) / reduce.mean(weight_BP.sum(1))",
            "reduce.mean((weight_BP * error_BP).sum(1) / weight_BP.sum(1))",
            (),
        ),
        "all images of a batch have blocks of one size, so that their weights have one sum",
    ),
)
