"""The stored runs of the stress tests: claims are judged again, and the page states their rows."""

import functools

import pytest

from experiments.rivals.stress import budget, noise, shift, spaces, stability
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored

RUNS = {  # experiment -> its module, its claims, the experiment with its rows, its tables
    "table4_pair_noise": (noise, noise.claims, "table4_pair_noise", (noise.table, noise.sizes)),
    "table5_shift": (shift, shift.claims, "table5_shift", (shift.table,)),
    "table7_seeds": (stability, stability.seed_claims, "table7_seeds", (stability.seed_table,)),
    "table8_nos_k": (stability, stability.nos_claims, "table7_seeds", (stability.nos_table,)),
    "fig5_pair_budget": (budget, budget.claims, "fig5_pair_budget", (budget.table,)),
}
PAGE, TEXT = stored.page("stress")
run = functools.cache(stored.run)


@functools.cache
def judged(name):
    _, claims, source, _ = RUNS[name]
    return {claim.id: claim for claim in claims(run(source)["rows"])}


@pytest.mark.parametrize("name", RUNS)
def test_stored_claims_are_judged_again(name):
    stored.check_claims(judged(name).values(), run(name)["claims"], abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_has_the_tables_and_the_count_of_claims(name):
    module, _, source, shown = RUNS[name]
    for table in shown:
        assert tables.to_markdown(table(run(source)["rows"])) in PAGE
    agree = sum(claim.agrees is True for claim in judged(name).values())
    assert f"`{name}`: {agree} of {len(judged(name))} claims agree." in TEXT
    count = f"{agree} of {len(judged(name))} claims"
    assert count in stored.in_one_line(module.__doc__)


def test_sentences_of_the_page_state_the_rows():
    noisy, few, shifted, seeds, near = (
        judged("table4_pair_noise"), judged("fig5_pair_budget"), judged("table5_shift"),
        judged("table7_seeds"), judged("table8_nos_k"),
    )  # fmt: skip
    rows = run("table7_seeds")["rows"]
    spread = {n: stability.spread_of(rows, n) for n in spaces.names(rows)}
    dsc = {n: stability.spread_of(rows, n, "dsc") for n in spread}
    left = {
        n: s / (1 - spaces.mean(rows, "r2", method=n, row="trained")) for n, s in spread.items()
    }
    budgets = run("fig5_pair_budget")["rows"]
    minus = "\N{MINUS SIGN}"
    sentences = [
        f"within {abs(noisy['theory'].ours):.3f} of that",
        f"{noisy['paper/r2'].ours:.3f} of its value; the paper's is at {noisy['paper/r2'].paper}",
        f"({noisy['paper/kappa'].ours:.2f} times; the paper's 82 times)",
        f"any grows is {noisy['growth'].ours:.2f} times",
        f"gives back {noisy['trimmed'].ours:.3f} of",
        f"κ stays at {noisy['size/large'].ours:.2f}",
        f"need {budget.pairs_needed(budgets, 'ijepa', 'random'):.0f} pairs",
        f"({budget.pairs_needed(budgets, 'ijepa', 'random', 'white'):.0f})",
        f"{budget.pairs_needed(budgets, 'ijepa', 'objects'):.0f} for I-JEPA, "
        f"{budget.pairs_needed(budgets, 'simclr', 'objects'):,.0f} for SimCLR",
        f"(Spearman's {few['rank'].ours:.3f})",
        f"by {shifted['paper/lighting'].ours:.3f} under lightings".replace("-", minus),
        f"(I-JEPA's DSC changes by {shifted['dsc'].ours:.3f})".replace("-0", f"{minus}0"),
        f"I-JEPA's R² is {seeds['paper/size'].ours:.4f}, the paper's 0.004",
        f"has the largest ({spread['mae']:.4f})",
    ]
    for sentence in sentences:
        assert sentence in TEXT
    for note in ("I-JEPA has 0.959 and 0.864", "I-JEPA has 0.883 and 0.659"):
        assert note in noisy["paper/r2"].note + noisy["paper/dsc"].note
    assert "0.820, at 50 0.690" in near["paper/rises"].note
    assert "0.774 by W^-1, 0.729 without" in near["map"].note
    assert max(spread, key=spread.get) == "mae"
    assert [sorted(of, key=of.get).index("ijepa") for of in (spread, left, dsc)] == [0, 3, 3]
