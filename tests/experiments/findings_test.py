"""Claims, and rows selected by their columns."""

import pytest

from experiments import findings, reproduce
from experiments.findings import Claim
from socialjepa_jax.errors import InputError


def test_rows_are_selected_and_averaged_by_their_columns():
    rows = [{"a": 1, "x": 2.0}, {"a": 1, "x": 4.0}, {"a": 2, "x": 9.0}]
    assert findings.mean(rows, "x", a=1) == 3.0
    assert findings.spread(rows, "x", a=1) == 1.0
    assert findings.select(rows, a=2) == [{"a": 2, "x": 9.0}]
    assert findings.distinct(rows, "a") == [1, 2]
    assert findings.mean(rows, "x", a=3) != findings.mean(rows, "x", a=3)  # NaN


def made(agrees, note="R² is 0.5.", because=""):
    return Claim("a/r2", 0.9, 0.5, agrees, note, because=because)


@pytest.mark.parametrize("verdict", ["agrees", "differs", "not comparable"])
def test_a_note_that_begins_with_a_verdict_is_refused(verdict):
    with pytest.raises(InputError, match=f"'a/r2': the note begins with a verdict: '{verdict}"):
        made(True, f"{verdict}: R² is 0.5.")


def test_a_claim_states_its_verdict_once_and_its_reason_where_it_does_not_agree():
    notes = [made(agrees, because="few steps").plain()["note"] for agrees in (True, False, None)]
    assert notes == [
        "agrees: R² is 0.5.",
        "differs: R² is 0.5; few steps.",
        "not comparable: R² is 0.5; few steps.",
    ]
    assert made(None).plain()["agrees"] is None


def test_the_page_counts_only_claims_that_can_be_compared(tmp_path):
    claims = [made(True), made(False), made(None)]
    findings.save(findings.Finding("A title", claims, {}, [{"r2": 0.5}]), "id_2d", "cpu", tmp_path)
    assert findings.section("id_2d", tmp_path).verdicts == [True, False]
    page = reproduce.write_page(tmp_path).read_text()
    assert "1 of 2 claims agree" in page
    assert "not comparable: R² is 0.5." in page


def test_a_curve_is_the_mean_at_each_value_of_the_selected_rows():
    rows = [{"x": x, "y": x + seed, "of": "a"} for x in (3, 1) for seed in (0, 1)]
    rows += [{"x": 2, "y": 9.0, "of": "b"}]
    a, b = findings.curves(rows, "x", "y", by="of")
    assert (a.label, list(a.x), list(a.y)) == ("a", [1, 3], [1.5, 3.5])
    assert (b.label, list(b.x), list(b.y)) == ("b", [2], [9.0])


def test_kept_rows_are_made_once_and_read_again(tmp_path):
    path, made = tmp_path / "folder" / "rows.json", []

    def make():
        made.append(1)
        return [{"name": "a", "value": 0.5}]

    assert findings.kept(path, make) == findings.kept(path, make) == [{"name": "a", "value": 0.5}]
    assert len(made) == 1
    path.write_text('[{"name": "b"}]')
    assert findings.kept(path, make) == [{"name": "b"}]
