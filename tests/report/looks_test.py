from socialjepa_jax.report.looks import LOOKS, look


def test_looks_are_distinct():
    looks = list(LOOKS.values())
    assert len({(one.color, one.dash) for one in looks}) == len(looks)
    assert len({one.label for one in looks}) == len(looks)
    assert look("something_new").label == "something new"
