def test_sentences_of_the_page_state_the_rows():
    noisy, few, shifted, seeds, near = (
        judged("table4_pair_noise"), judged("fig5_pair_budget"), judged("table5_shift"),
        judged("table7_seeds"), judged("table8_nos_k"),
    )  # fmt: skip
    rows = stored("table7_seeds")["rows"]
    spread = {n: stability.spread_of(rows, n) for n in stress.names(rows)}
    dsc = {n: stability.spread_of(rows, n, "dsc") for n in spread}
    left = {
        n: s / (1 - stress.mean(rows, "r2", method=n, row="trained")) for n, s in spread.items()
    }
    budgets = stored("fig5_pair_budget")["rows"]
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
