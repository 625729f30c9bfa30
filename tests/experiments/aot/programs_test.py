"""Facts of compiled programs, read from texts whose bytes are counted by hand."""

import pytest

from experiments.aot import hlo, programs
from experiments.aot.hlo import Array
from experiments.aot.programs import Collective

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
    found = programs.traffic(hlo.parse(LOOP))
    rows = 4 * 1024
    assert found == {
        "fusion jit(step)/gather": 10 * (rows + 16 + 4 * rows),  # rows, indices, floats
        "move jit(step)/mlp/copy": 10 * 4 * rows,  # reads; it writes to memory on the chip
        "fusion dus_fusion": 10 * (4 * 64 + 4 * 64 + 4),  # a row read, a row written, its place
        "all-reduce all-reduce": 10 * (2 * 4 * 1024 + 32),  # %half is of another text
    }


def test_aliases_and_loops_are_counted():
    program = hlo.parse(LOOP)
    assert program.aliases == 2
    assert program.times["body"] == program.times["gathered"] == 10
    assert "body" in program.flow and "gathered" not in program.flow
    assert programs.collectives(program) == [
        Collective("all-reduce", 4 * 1024 + 32, 2, ("bf16", "f32"), False, 10, before=3 / 4)
    ]
    assert programs.host_transfers(program) == []


def entry(*lines, before=""):
    return hlo.parse(
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


def test_an_asynchronous_slice_reads_what_it_takes():
    program = entry(
        "  %a = f32[1024]{0} parameter(0)",
        "  %s = ((f32[1024]{0}), f32[16]{0:S(1)}, s32[]{:S(2)}) slice-start(%a), slice={[0:16]}",
        "  ROOT %d = f32[16]{0:S(1)} slice-done(%s)",
    )
    assert programs.traffic(program) == {"move s": 64}


@pytest.mark.parametrize(
    ("kind", "size"),
    [("f8e4m3fn", 8), ("bf16", 16), ("s32", 32), ("pred", 8), ("u4", 4), ("c64", 64), ("token", 0)],
)
def test_bits_of_elements(kind, size):
    assert hlo.bits(kind) == size


def test_layouts_and_tuples_are_read():
    line = "  %x = (bf16[4,6400,1536]{2,1,0:T(8,128)(2,1)S(1)}, s4[7]{0:E(4)}, f32[]) custom-call()"
    found = entry(line).computations["main"][0]
    assert found.results == (
        Array("bf16", 2 * 4 * 6400 * 1536, 1), Array("s4", 3), Array("f32", 4)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "filled"),
    [
        ("f32[3,197,64]{2,1,0:T(8,128)}", 3 * 200 * 128),
        ("bf16[3,197,64]{1,2,0:T(8,128)(2,1)}", 3 * 64 * 256),
        ("f32[5]{0:T(1024)}", 1024),
        ("f32[]{:T(128)}", 128),
        ("f32[3,197,64]{2,1,0}", 3 * 197 * 64),
        ("f32[0,64]{1,0:T(8,128)}", 0),
    ],
)
def test_arrays_fill_whole_tiles(shape, filled):
    (found,) = entry(f"  %x = {shape} custom-call()").computations["main"][0].results
    elements = hlo.bits(found.kind) // 8
    assert found.size + found.padding == filled * elements


def test_the_share_of_bytes_that_fill_tiles():
    program = entry(
        "  %a = f32[8,128]{1,0:T(8,128)} parameter(0)",
        "  %b = f32[8,64]{1,0:T(8,128)} custom-call(%a)",
        "  %c = f32[8,1]{1,0:T(8,128)S(1)} custom-call(%b)",  # not in main memory
    )
    assert programs.padding(program) == 0.5
    assert programs.traffic(program) == {"custom-call b": 8192, "custom-call c": 4096}


def test_iterations_of_a_loop_without_annotation_are_those_of_its_condition():
    """As compilers for TPUs print them."""
    bare = LOOP.replace(', backend_config={"known_trip_count":{"n":"10"},"x":{}}', "")
    counted = bare.replace(
        "  ROOT %less = pred[] constant(true)",
        "  %n = s32[]{:T(128)} constant(25)\n  %i.2 = s32[] get-tuple-element(%state.1), index=5\n"
        "  ROOT %less = pred[]{:T(512)} compare(%i.2, %n), direction=LT",
    )
    assert hlo.parse(counted).times["body"] == 25
    assert hlo.parse(bare).times["body"] == 1  # unknown


def test_the_place_of_a_collective_and_what_is_moved_beside_it():
    program = entry(
        "  %a = f32[256]{0} parameter(0)",
        "  %b = f32[256]{0} negate(%a)",
        "  %s = f32[256]{0} all-reduce-start(%b), replica_groups={{0,1}}",
        "  %c = f32[256]{0} negate(%a)",
        "  %d = f32[256]{0} all-reduce-done(%s)",
        "  ROOT %e = f32[256]{0} add(%c, %d)",
    )
    assert programs.collectives(program) == [
        Collective("all-reduce", 1024, 2, ("f32",), True, before=1 / 4, beside=2048)
    ]


def test_a_slice_reads_what_it_takes():
    program = entry(
        "  %a = f32[1024]{0} parameter(0)",
        "  %b = f32[16]{0} fusion(%a), kind=kLoop, calls=%cut",
        before="%cut (p: f32[1024]) -> f32[16] {\n  %p = f32[1024]{0} parameter(0)\n"
        "  ROOT %s = f32[16]{0} slice(%p), slice={[0:16]}\n}",
    )
    assert programs.traffic(program) == {"fusion b": 64 + 64}


def test_a_chain_of_fusions_is_one_collective():
    """As TPUs overlap a sum with other work: start, steps that go on with it, end."""
    inner = "\n".join(
        f"%f{i} (p: f32[256]) -> f32[256] {{\n  %p = f32[256]{{0}} parameter(0)\n"
        f"  ROOT %r{i} = f32[256]{{0}} all-reduce(%p), replica_groups={{{{0,1}}}}, "
        f'to_apply=%add, frontend_attributes={{chain_id="7"}}\n}}'
        for i in range(3)
    )
    program = entry(
        "  %a = f32[256]{0} parameter(0)",
        "  %b = f32[256]{0} negate(%a)",
        "  %c = f32[256]{0} fusion(%b), kind=kCustom, calls=%f0",
        "  %d = f32[256]{0} negate(%a)",
        "  %e = f32[256]{0} fusion(%c), kind=kCustom, calls=%f1",
        "  ROOT %f = f32[256]{0} fusion(%e), kind=kCustom, calls=%f2",
        before=inner,
    )
    assert programs.collectives(program) == [
        Collective("all-reduce", 1024, 2, ("f32",), True, before=1 / 5, beside=2048 + 2048)
    ]
