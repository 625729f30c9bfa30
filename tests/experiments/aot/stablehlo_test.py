"""Products of StableHLO: their sizes, their types and the files that they come from."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from experiments.aot import stablehlo
from experiments.aot.stablehlo import Product


def test_products_name_the_file_that_they_come_from():
    text = """
module {
  func.func @main() {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x4x16xbf16>, tensor<1x16x8xbf16>) -> tensor<1x4x8xbf16> loc(#loc9)
    %1 = stablehlo.dot_general %a, %a, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1xf32> loc(#loc8)
    %2 = stablehlo.add %a, %a : tensor<1x16xf32> loc(#loc8)
  }
}
#loc = loc(unknown)
#loc1 = loc("/x/site-packages/flax/nnx.py":10:2 to :8)
#loc2 = loc("/x/socialjepa_jax/models/mlp.py":22:19 to :43)
#loc3 = loc("/x/socialjepa_jax/agents.py":5:1)
#loc4 = loc("Dense"(#loc1))
#loc5 = loc(callsite(#loc2 at #loc3))
#loc6 = loc(callsite(#loc4 at #loc5))
#loc8 = loc("dot_general"(#loc3))
#loc9 = loc("jvp(mlp)/dot_general"(#loc6))
"""  # noqa: E501
    assert stablehlo.products(text) == [
        Product("bf16", "models/mlp.py", "jvp(mlp)/dot_general", 1, 4, 16, 8),
        Product("f32", "agents.py", "dot_general", 1, 1, 16, 1),
    ]


def only(function, *shapes):
    """The one product of a function of float32 arrays."""
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    (found,) = stablehlo.products(jax.jit(function).lower(*arrays).as_text(debug_info=True))
    return found


@pytest.mark.parametrize(
    ("equation", "shapes", "sides"),
    [
        ("bhqk,bhsk->bhqs", [(3, 2, 5, 7), (3, 2, 11, 7)], (6, 5, 7, 11)),
        ("btd,de->bte", [(3, 5, 7), (7, 11)], (1, 15, 7, 11)),
        ("i,i->", [(7,), (7,)], (1, 1, 7, 1)),
    ],
)
def test_sides_of_products(equation, shapes, sides):
    found = only(lambda x, y: jnp.einsum(equation, x, y), *shapes)
    batch, rows, contracted, columns = sides
    assert (found.batch, found.contracted) == (batch, contracted)
    assert {found.rows, found.columns} == {rows, columns}
    assert found.flops == 2 * batch * rows * contracted * columns
    assert found.vectors == (rows == columns == 1)


def test_sides_of_a_convolution():
    def convolve(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    found = only(convolve, (2, 9, 9, 3), (3, 3, 3, 8))
    assert (found.rows, found.contracted, found.columns) == (2 * 4 * 4, 3 * 3 * 3, 8)


def test_products_fill_whole_tiles():
    """Scores of 197 tokens with 64 features: 64 fill 128, and 197 fill 200 rows, 256 columns."""
    scores = Product("bf16", "", "", 2, 197, 64, 197)
    assert scores.padded_flops((8, 128, 128)) == 2 * 2 * 200 * 128 * 256
    assert scores.padded_flops((1, 1, 1)) == scores.flops == 2 * 2 * 197 * 64 * 197
    narrow = Product("bf16", "", "", 1, 16, 128, 6400)
    assert narrow.padded_flops((8, 128, 128)) == narrow.flops  # the operands change places
