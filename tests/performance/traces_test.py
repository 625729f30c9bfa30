"""Traces: own times of nested operations, and their sources."""

from socialjepa_jax.performance import traces


def test_own_time_excludes_nested_operations():
    spans = [(0.0, 100.0, "while"), (10.0, 40.0, "dot"), (20.0, 30.0, "copy"), (50.0, 60.0, "dot"),
             (100.0, 105.0, "add")]  # fmt: skip
    own = traces._own_times(spans)
    assert own == [("while", 60.0), ("dot", 20.0), ("copy", 10.0), ("dot", 10.0), ("add", 5.0)]


def test_sources_are_scopes_without_the_shared_ones():
    text = (
        '  %dot.3 = f32[4]{0} dot(%a, %b), metadata={op_name="jit(many)/shard_map/while/body/'
        'closed_call/jvp(mlp)/dot_general" source_file="x.py"}\n  add.1 = f32[] add(%c, %d)\n'
    )
    assert traces.sources(text) == {"dot.3": "jvp(mlp)/dot_general"}


def test_a_folder_without_a_trace_has_no_operations(tmp_path):
    assert traces.operations(tmp_path) == []
