"""Facts of programs, read from texts whose bytes are counted by hand."""

import pytest

from experiments.bench import programs
from experiments.bench.programs import Array, Collective

# A loop of ten steps over 4 KB of state, with rows gathered out of 1 MB and a row written in place.
LOOP = """
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%gathered (param_1: s32[4], param_0: u8[1024,1024]) -> f32[4,1024] {
  %param_1 = s32[4]{0} parameter(1)
  %param_0 = u8[1024,1024]{1,0:T(8,128)(4,1)} parameter(0)
  %gather.1 = u8[4,1024]{1,0} gather(%param_0, %param_1), offset_dims={1}, slice_sizes={1,1024}
  ROOT %convert.1 = f32[4,1024]{1,0} convert(%gather.1)
}

%written (p0: f32[10,64], p1: f32[1,64], p2: s32[]) -> f32[10,64] {
  %p0 = f32[10,64]{1,0} parameter(0)
  %p1 = f32[1,64]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  ROOT %dus = f32[10,64]{1,0} dynamic-update-slice(%p0, %p1, %p2, %p2)
}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%body (state: (f32[1024], s32[4], u8[1024,1024], f32[10,64], f32[1,64], s32[])) -> (f32[1024], s32[4]) {
  %state = (f32[1024]{0}, s32[4]{0}, u8[1024,1024]{1,0}, f32[10,64]{1,0}, /*index=4*/f32[1,64]{1,0}, s32[]) parameter(0)
  %w = f32[1024]{0:T(1024)} get-tuple-element(%state), index=0
  %i = s32[4]{0} get-tuple-element(%state), index=1
  %images = u8[1024,1024]{1,0} get-tuple-element(%state), index=2
  %log = f32[10,64]{1,0} get-tuple-element(%state), index=3
  %line = f32[1,64]{1,0} get-tuple-element(%state), index=4
  %at = s32[] get-tuple-element(%state), index=5
  %batch = f32[4,1024]{1,0} fusion(%images, %i), kind=kLoop, calls=%gathered, metadata={op_name="jit(step)/gather"}
  %near = f32[4,1024]{1,0:T(8,128)S(1)} copy(%batch), metadata={op_name="jit(step)/mlp/copy"}
  %dus_fusion = f32[10,64]{1,0} fusion(%log, %line, %at), kind=kLoop, calls=%written
  %all-reduce.1 = (f32[1024]{0}, bf16[16]{0}) all-reduce(%w, %half), replica_groups={{0,1},{2,3}}, to_apply=%add
  ROOT %out = (f32[1024]{0}, s32[4]{0}) tuple(%w, %i)
}

%condition (state.1: (f32[1024], s32[4])) -> pred[] {
  ROOT %less = pred[] constant(true)
}

ENTRY %main (a: f32[1024]) -> f32[1024] {
  %a = f32[1024]{0} parameter(0)
  %start = (f32[1024]{0}, s32[4]{0}) tuple(%a, %a)
  %loop = (f32[1024]{0}, s32[4]{0}) while(%start), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"10"},"x":{}}
  ROOT %result = f32[1024]{0} get-tuple-element(%loop), index=0
}
"""  # noqa: E501


def test_bytes_are_those_that_instructions_move_in_every_step():
    found = programs.traffic(programs.parse(LOOP))
    rows = 4 * 1024
    assert found == {
        "fusion jit(step)/gather": 10 * (rows + 16 + 4 * rows),  # rows, indices, floats
        "copy jit(step)/mlp/copy": 10 * 4 * rows,  # reads; it writes to memory on the chip
        "fusion dus_fusion": 10 * (4 * 64 + 4 * 64 + 4),  # a row read, a row written, its place
        "all-reduce all-reduce.1": 10 * (2 * 4 * 1024 + 32),  # %half is of another text
    }


def test_aliases_and_loops_are_counted():
    program = programs.parse(LOOP)
    assert program.aliases == 2
    assert program.times["body"] == program.times["gathered"] == 10
    assert "body" in program.flow and "gathered" not in program.flow
    assert programs.collectives(program) == [
        Collective("all-reduce", 4 * 1024 + 32, 2, ("bf16", "f32"), False, 10)
    ]
    assert programs.host_transfers(program) == []


def entry(*lines, before=""):
    return programs.parse(
        f"{before}\nENTRY %main (a: f32[4]) -> f32[4] {{\n" + "\n".join(lines) + "\n}\n"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(f32[4,8]{1,0}, f32[]) all-reduce(%a, %b), replica_groups={{0,1},{2,3}}",
         ("all-reduce", 132, 2, ("f32",), False)),
        ("f32[4,8]{1,0} all-reduce-start(%a), replica_groups=[1,4]<=[4]",
         ("all-reduce", 128, 4, ("f32",), True)),
        ('f32[2]{0} all-reduce-start(%a), replica_groups={{0,1}}, backend_config={"is_sync":true}',
         ("all-reduce", 8, 2, ("f32",), False)),
        ("(bf16[4]{0}, bf16[16]{0}) all-gather-start(%a), replica_groups=[2,4]<=[8]",
         ("all-gather", 32, 4, ("bf16",), True)),
        ("f32[2]{0} all-reduce(%a), replica_groups=mesh['agent'=2,'data'=4] {'data'}",
         ("all-reduce", 8, 4, ("f32",), False)),
    ],
)  # fmt: skip
def test_collectives_are_read(line, expected):
    found = programs.collectives(entry(f"  %c.1 = {line}", "  %d = f32[4]{0} add(%c.1, %c.1)"))
    assert found == [Collective(*expected)]


def test_a_collective_in_an_asynchronous_computation_is_asynchronous():
    inner = "%wrapped (p: f32[8]) -> f32[2] {\n  ROOT %r = f32[2]{0} reduce-scatter(%p), "
    program = entry(
        "  %s = ((f32[8]{0}), f32[2]{0}, u32[]) async-start(%a), calls=%wrapped",
        before=f"{inner}replica_groups=[1,4]<=[4]\n}}",
    )
    assert programs.collectives(program) == [Collective("reduce-scatter", 8, 4, ("f32",), True)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("((f32[4]{0}), token[]) infeed(%t)", "infeed"),
        ("(f32[4]{0}, u32[], token[]) send(%a, %t), channel_id=1", "send"),
        ('f32[4]{0} custom-call(%a), custom_call_target="xla_ffi_python_cpu_callback"',
         "custom-call"),
        ("(f32[4]{0:S(5)}, f32[4]{0}, u32[]) copy-start(%a)", "copy-start"),
    ],
)  # fmt: skip
def test_what_talks_to_the_host_is_named(line, said):
    found = programs.host_transfers(entry(f'  %x = {line}, metadata={{op_name="here"}}'))
    assert found == [f"{said} here"]
    quiet = 'f32[4]{0} custom-call(%a), custom_call_target="__cublas$gemm"'
    assert programs.host_transfers(entry(f"  %x = {quiet}")) == []


def test_an_asynchronous_copy_counts_once():
    program = entry(
        "  %a = f32[256]{0} parameter(0)",
        "  %s = (f32[256]{0}, f32[256]{0}, u32[]) copy-start(%a)",
        "  ROOT %d = f32[256]{0} copy-done(%s)",
    )
    assert programs.traffic(program) == {"copy s": 2 * 1024}


@pytest.mark.parametrize(
    ("kind", "size"),
    [("f8e4m3fn", 8), ("bf16", 16), ("s32", 32), ("pred", 8), ("u4", 4), ("c64", 64), ("token", 0)],
)
def test_bits_of_elements(kind, size):
    assert programs.bits(kind) == size


def test_layouts_and_tuples_are_read():
    line = "  %x = (bf16[4,6400,1536]{2,1,0:T(8,128)(2,1)S(1)}, s4[7]{0:E(4)}, f32[]) custom-call()"
    found = entry(line).computations["main"][0]
    assert found.results == (
        Array("bf16", 2 * 4 * 6400 * 1536, 1), Array("s4", 3), Array("f32", 4)
    )  # fmt: skip


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
    assert programs.products(text) == [
        programs.Product("bf16", "models/mlp.py", "jvp(mlp)/dot_general", False),
        programs.Product("f32", "agents.py", "dot_general", True),
    ]
