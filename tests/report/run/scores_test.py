import dataclasses

from socialjepa_jax.records import RowName
from socialjepa_jax.report.run import scores
from socialjepa_jax.report.tables import best_rows


def labels(table):
    return [row.label for row in table.rows]


def test_rows_stand_in_one_order_and_unknown_ones_before_the_paper(run):
    other = dataclasses.replace(run.scores[0], row="something_new", split="state")
    table = scores.metrics_table(dataclasses.replace(run, scores=[other, *run.scores]), "state")
    assert labels(table) == [
        "trained", "same camera (ceiling)", "untrained, other init", "untrained, same init",
        "pixel PCA", "shared factors", "shuffled within cell", "shuffled", "factors removed",
        "something new", "paper",
    ]  # fmt: skip


def test_ceiling_partialled_rows_and_the_paper_do_not_compete(run):
    table = scores.metrics_table(run, "state")
    unranked = {row.label for row in table.rows if not row.ranked}
    assert unranked == {"same camera (ceiling)", "factors removed", "paper"}
    (best,) = best_rows(table, table.columns[0])
    assert table.rows[best].label == "trained"


def test_a_page_without_nos_says_so(run):
    bare = [dataclasses.replace(score, metrics={"r2": 0.1}) for score in run.scores]
    text = scores.neighbourhoods(dataclasses.replace(run, scores=bare), album=None)
    assert "holds no NOS@k" in text


def test_probes_are_shown_for_every_row_that_has_them(run):
    text = scores.probes(run, 5)
    assert text.count("chance is 1/5") == 2
    assert "shared factors" not in text  # they have no latents to train a probe on
    only = [s for s in run.scores if s.row == RowName.SHARED_FACTORS]
    assert "No linear probes" in scores.probes(dataclasses.replace(run, scores=only), 5)


def test_the_bound_on_dsc_is_named_where_digits_could_show_it(run):
    def caption(bound):
        bounded = dataclasses.replace(run.scores[0], metrics={"dsc": 0.5, "dsc_bound": bound})
        scored = dataclasses.replace(run, scores=[bounded, *run.scores])
        return scores.metrics_table(scored, bounded.split).caption

    assert "error" not in caption(9e-4)
    assert "error of DSC is below 0.02" in caption(2e-2)
