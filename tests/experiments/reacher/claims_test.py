"""The claims on the arm, judged on rows whose means are known."""

import numpy as np
import pytest

from experiments.reacher import ou, planning, scores, trajectory

OWN = ou.OWN


def process_row(rho, seed, state, weight=None, camera=0, **more):
    """A row of an agent of the Ornstein-Uhlenbeck process."""
    row = {"condition": "ou", "rho": rho, "stride": None, "seed": seed, "camera": camera,
           "lambda": ou.weight(rho) if weight is None else weight, f"{OWN}/orthogonality": 1 - rho,
           f"ceiling {OWN}/state": 0.93, f"best guess {OWN}/state": 0.95}  # fmt: skip
    row |= {f"{OWN}/{name}": state for name in ("state", "shoulder", "wrist")}
    row |= {f"{OWN} wrapped/state": 0.98, f"untrained {OWN}/state": 0.1}
    row |= {f"{OWN}/{f} {joint}": 0.85 if f == "sin" else 0.0
            for f in ("sin", "cos") for joint in ("shoulder", "wrist")}  # fmt: skip
    return row | more


def process_rows(r2=ou.PAPER, sweep=0.93, tilted=0.93, w=0.95, mismatched=0.0, **more):
    """Two agents of every setting, 0.01 above and below the mean."""
    rows = []
    for away in (-0.01, 0.01):
        rows += [process_row(rho, away, value + away, **more) for rho, value in r2.items()]
        rows += [process_row(0.9, away, sweep, 0.05), process_row(0.9, away, tilted, camera=1)]
        values = {"two cameras": w, "one camera": 0.97, "untrained": 0.2, "mismatched": mismatched}
        rows += [{"subject": k, "pair": away, "W": v + away} for k, v in values.items()]
    return rows


def judged(claims):
    return {claim.id: claim for claim in claims}


def test_claims_on_the_process_hold_where_the_rows_say_so():
    found = judged(ou.claims(process_rows()))
    assert {id: c.agrees for id, c in found.items()} == dict.fromkeys(found, True) | {
        "sines and cosines/raw angles": False
    }
    assert len(found) == len(ou.PAPER) + 9
    assert found["rho 0.3/R2 of the joints"].ours == pytest.approx(0.67)
    assert found["rho 0.3/R2 of the joints"].std == pytest.approx(0.01)
    assert found["sines and cosines/raw angles"].ours == pytest.approx(0.425)
    assert "two cameras 0.950 ± 0.127" in found["two cameras/R2 of W"].note


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({"r2": ou.PAPER | {0.5: 0.80}}, "rho 0.5/R2 of the joints"),
        ({"r2": ou.PAPER | {0.9: 0.91}}, "R2 rises with rho"),
        ({f"{OWN}/wrist": 0.5}, "both joints alike"),
        ({f"{OWN}/orthogonality": np.nan}, "the map tends to a rotation"),
        ({"sweep": 0.89}, "lambda at rho 0.9"),
        ({f"ceiling {OWN}/state": 1.1}, "the plateau is the ceiling of wrapped angles"),
        ({f"{OWN}/cos wrist": 0.3}, "sines and cosines/value for raw angles"),
        ({"tilted": 0.85}, "tilted camera/R2 of the joints"),
        ({"w": 0.85}, "two cameras/R2 of W"),
        ({"mismatched": 0.6}, "two cameras/R2 of W"),
    ],
)
def test_a_claim_on_the_process_fails_where_the_rows_say_so(change, id):
    assert judged(ou.claims(process_rows(**change)))[id].agrees is False


def test_w_is_found_and_its_controls_are_not():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 2))
    turned = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    noise = rng.normal(size=(2, 400, 2))

    class Agents:
        latents = {"ou": np.stack([z, z + 0.1 * noise[0]])}  # noqa: RUF012
        untrained = {"ou": noise}  # noqa: RUF012

    class Others:
        latents = {"ou": Agents.latents["ou"] @ turned}  # noqa: RUF012
        untrained = {"ou": noise[::-1]}  # noqa: RUF012

    found = {}
    for row in ou.translations(Agents, Others):
        found.setdefault(row["subject"], []).append(row["W"])
    assert min(found["two cameras"]) > 0.999 and min(found["one camera"]) > 0.97
    assert max(found["untrained"]) < 0.05 and max(found["mismatched"]) < 0.05


def trajectory_row(stride, seed, weight, role, state, **more):
    """A row of an agent of trajectories; every cell has the same state."""
    row = {"condition": "trajectory", "rho": None, "stride": stride, "seed": seed,
           "lambda": weight, "role": role}  # fmt: skip
    for a, b in scores.CELLS:
        row |= {f"{a}>{b}/{name}": state for name in ("state", "shoulder", "wrist")}
        row |= {f"{a}>{b}/z to h": state - 0.3, f"ceiling {a}>{b}/state": 0.9}
    return row | {f"{trajectory.OWN} wrapped/state": 0.8} | more


STATES = {1: 0.3, 8: 0.7, 64: 0.6}
CURVE = {1: 400.0, 2: 90.0, 4: 20.0, 8: 2.0, 16: 3.0, 32: 9.0, 64: 30.0}
WRIST = {1: 0.0, 8: 0.75, 64: 0.75}
SHOULDER = {1: 0.7, 8: 0.8, 64: 0.5}


def trajectory_rows(states=STATES, process=0.9, other=0.1, curve=CURVE, wrist=WRIST,
                    shoulder=SHOULDER, **more):  # fmt: skip
    """Rows where 0.01 is the better lambda on the choosing agents."""
    rows = []
    for stride, state in states.items():
        joints = {f"{trajectory.PUBLISHED}/wrist": wrist[stride],
                  f"{trajectory.PUBLISHED}/shoulder": shoulder[stride]}  # fmt: skip
        rows += [trajectory_row(stride, 9, 0.01, "choosing", state, **joints, **more),
                 trajectory_row(stride, 9, 0.001, "choosing", state - 0.1, **joints, **more),
                 trajectory_row(stride, 0, 0.01, "reported", state, **joints, **more),
                 trajectory_row(stride, 0, 0.001, "reported", other, **joints, **more)]  # fmt: skip
    for rho in (0.99, 0.9):
        cells = {f"{a}>{b}/state": process for a, b in scores.CELLS}
        cells |= {f"ceiling {a}>{b}/state": 0.9 for a, b in scores.CELLS}
        rows.append({"condition": "ou", "rho": rho, "stride": None, "role": "reported", **cells})
    for of in ("shoulder", "wrist", "both"):
        rows += [{"measure": "sigreg", "stride": s, "of": of, "value": v} for s, v in curve.items()]
        rows.append({"measure": "floor", "of": of, "value": 1.0})
    return rows


def test_claims_on_trajectories_hold_where_the_rows_say_so():
    found = judged(trajectory.claims(trajectory_rows()))
    assert {id: c.agrees for id, c in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 11
    assert trajectory.chosen_lambda(trajectory_rows(), 8, f"{trajectory.OWN}/state") == 0.01
    ahead = found["published protocol/the process above trajectories"]
    assert ahead.ours == pytest.approx(0.2)
    assert found["published protocol/R2 of z to h never exceeds .5"].ours == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({"states": {1: 0.3, 8: 0.85, 64: 0.6}}, "published protocol/R2 of z to h never exceeds"),
        ({"process": 0.65}, "published protocol/the process above trajectories"),
        ({"process": 0.65}, "within trajectories/the process above trajectories"),
        ({f"{trajectory.OWN} wrapped/state": 0.4}, "within trajectories/R2 of wrapped angles"),
        ({"wrist": WRIST | {1: 0.3}}, "published protocol/wrist at the first stride"),
        ({"shoulder": SHOULDER | {64: 0.8}}, "published protocol/shoulder falls"),
        ({"states": {1: 0.3, 8: 0.5, 64: 0.6}}, "published protocol/best stride"),
        ({"other": 0.8}, "lambda chosen on other seeds"),
        ({"curve": CURVE | {64: 1.0}}, "SIGReg of differences/both"),
        ({"curve": {s: 400.0 for s in CURVE}}, "SIGReg of differences/wrist"),
    ],
)
def test_a_claim_on_trajectories_fails_where_the_rows_say_so(change, id):
    found = trajectory.claims(trajectory_rows(**change))
    (claim,) = [c for c in found if c.id.startswith(id)]
    assert claim.agrees is False


def plan_rows(gaussian=0.02, warped=0.5, slope=-1.0):
    """Thirty plans of the oracle, and of agents whose paths exceed them."""
    rng = np.random.default_rng(0)
    oracle = rng.normal(1.2, 0.1, scores.PLANS)

    def agent(excess, state, **where):
        lengths = oracle + excess + rng.normal(0, 0.05, scores.PLANS)
        return {"ou>ou/state": state, planning.LENGTHS: list(lengths), **where}

    rows = [{"condition": "oracle", planning.LENGTHS: list(oracle)}]
    rows.append(agent(gaussian, 0.95, condition="ou", rho=0.99, stride=None))
    for weight, state in ((0.01, 0.5), (0.001, 0.4)):
        where = {"condition": "trajectory", "rho": None, "stride": 8, "lambda": weight}
        rows.append(agent(warped, state, **where))
    low = [agent(0.7 + 0.5 * slope * s, s, condition="ou", rho=0.5, stride=None)
           for s in (0.2, 0.3, 0.4)]  # fmt: skip
    return rows + low


def test_claims_on_plans_hold_where_the_rows_say_so():
    found = judged(planning.claims(plan_rows(gaussian=0.0)))
    assert found["process/equivalent to the oracle"].agrees
    assert found["trajectories/longer paths"].agrees
    assert found["all agents/length falls with R2"].agrees
    assert found["trajectories/longer paths"].ours == pytest.approx(0.5, abs=0.05)
    assert planning.best_lambda(plan_rows()) == 0.01


def test_claims_on_plans_fail_where_the_rows_say_so():
    found = judged(planning.claims(plan_rows(gaussian=0.3, warped=-0.2, slope=3.0)))
    assert not any(claim.agrees for claim in found.values())
