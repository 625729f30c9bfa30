"""Body plans of the toy world's animals and humans.

A plan makes the same number of choices whatever their outcome, so that the n-th choice means the
same for every instance. Lengths are in any unit: `parts.assemble` scales bodies to one size.
"""

import numpy as np

from socialjepa_jax.data.toys.parts import PLAIN, SIDES, Draws, Part, limb, moved, stripes, turn

BLACK, HORN = np.full(3, 0.05), np.array([0.75, 0.7, 0.6])
FUR, SKIN = (5.0, 55.0), (15.0, 35.0)  # ranges of hues


def animal(draw: Draws) -> list[Part]:
    """Makes a four-legged animal: trunk, neck, head, legs, tail, and optional hump, mane, horns."""
    length, girth, leg = draw.uniform(0.9, 1.7), draw.uniform(0.2, 0.4), draw.uniform(0.35, 1.0)
    thick, neck, rise = draw.uniform(0.055, 0.11), draw.uniform(0.2, 0.95), draw.uniform(35, 75)
    coat, other = draw.colour(0.15, 0.9, FUR), draw.colour(0.05, 0.9, FUR)
    pattern, hump, mane, socks = draw.choice(5), draw.flag(0.3), draw.flag(0.4), draw.flag(0.4)
    tail, hang, bushy = draw.uniform(0.25, 0.7), draw.uniform(-75, 50), draw.flag(0.4)
    strides = [draw.uniform(-0.18, 0.18) for _ in range(4)]

    z = leg + 0.8 * girth
    front, rump = np.array([0.5 * length, 0, z]), np.array([-0.5 * length, 0, z + 0.3 * girth])
    poll = front + turn(pitch=rise) @ [neck, 0, 0]
    tip = rump + turn(yaw=180, pitch=hang) @ [tail, 0, 0]
    size = (0.62 * length, 0.8 * girth, girth)
    waves = (PLAIN, stripes(x=16), stripes(9, 7, 8), stripes(z=2, phase=3.6), stripes(x=4))
    parts = [
        Part("ellipsoid", (0, 0, z), size, coat, second=other, pattern=waves[pattern]),
        limb(moved(front, x=-0.15 * length), poll, 0.5 * girth, coat),
        limb(moved(rump, x=0.1), tip, 0.05 + 0.05 * bushy, other if bushy else coat),
        *_animal_head(draw, poll, coat, other),
    ]
    if hump:
        parts.append(Part("ellipsoid", (-0.05, 0, z + 0.9 * girth), [0.7 * girth] * 3, coat))
    if mane:
        crest = 0.5 * (front + poll) + turn(pitch=rise) @ [0, 0, 0.4 * girth]
        size = (0.6 * neck + 0.1, 0.3 * girth, 0.12)
        parts.append(Part("ellipsoid", crest, size, other, turn(pitch=rise)))
    corners = [(0.42, 1), (0.42, -1), (-0.42, 1), (-0.42, -1)]
    for stride, (x, side) in zip(strides, corners):
        hip = (x * length, side * 0.5 * girth, z)
        hoof = np.array([x * length + stride, side * 0.6 * girth, 0.6 * thick])
        parts.append(limb(hip, moved(hoof, z=0.4 * thick), thick, other if socks else coat))
        parts.append(Part("cylinder", hoof, (1.15 * thick, 1.15 * thick, 0.6 * thick), BLACK))
    return parts


def _animal_head(draw: Draws, poll: np.ndarray, coat: np.ndarray, other: np.ndarray) -> list[Part]:
    size, snout, ear = draw.uniform(0.15, 0.23), draw.uniform(0.9, 1.7), draw.uniform(0.7, 1.5)
    ears, horns, trunk = draw.choice(3), draw.flag(0.4), draw.flag(0.15)

    tilt = turn(pitch=-25)
    nose = poll + size * tilt @ [1.1 * snout, 0, -0.25]
    tip = nose + size * tilt @ [0.62 * snout, 0, 0]
    parts = [
        Part("ellipsoid", poll, size * np.array([1.25, 0.85, 1]), coat, tilt),
        Part("ellipsoid", nose, size * np.array([0.7 * snout, 0.55, 0.55]), coat, tilt),
        Part("ellipsoid", tip, size * np.array([0.3, 0.3, 0.3]), BLACK),
    ]
    if trunk:
        parts.append(limb(tip, moved(tip, x=0.12, z=-0.6 * tip[2]), 0.3 * size, coat))
    shape = ((0.5, 0.5, 0.2), (0.9, 0.3, 0.2), (0.8, 0.4, 0.2))[ears]  # round, pointed, hanging
    for side in SIDES:
        way = turn(yaw=side * 70, pitch=(50, 70, -60)[ears])
        root = poll + size * np.array([-0.4, side * 0.7, 0.7])
        center = root + ear * size * way @ [shape[0], 0, 0]
        parts.append(Part("ellipsoid", center, ear * size * np.array(shape), other, way))
        if horns:
            base = poll + size * np.array([0, side * 0.4, 0.6])
            parts.append(limb(base, moved(base, 0.1, side * 0.8 * size, 1.5 * size), 0.035, HORN))
    return parts


def human(draw: Draws) -> list[Part]:
    """Makes a human in a walking pose, with optional hat, skirt, long hair and rucksack."""
    width, depth = draw.uniform(0.17, 0.27), draw.uniform(0.1, 0.18)
    height, hip, thick = draw.uniform(0.5, 0.62), draw.uniform(0.65, 0.95), draw.uniform(0.06, 0.1)
    shirt, trousers = draw.colour(0.1, 0.9), draw.colour(0.06, 0.8)
    skin = draw.colour(0.2, 0.8, SKIN)
    pattern, skirt, pack = draw.choice(4), draw.flag(0.3), draw.flag(0.35)

    shoulder = hip + height
    chest = (1.1 * depth, 1.1 * width, 0.42 * height)
    waist = (depth, 0.95 * width, 0.35 * height)
    wave = (PLAIN, PLAIN, stripes(z=12), stripes(y=9, phase=1.6))[pattern]
    parts = [
        Part("ellipsoid", (0, 0, hip + 0.62 * height), chest, shirt, second=trousers, pattern=wave),
        Part("ellipsoid", (0, 0, hip + 0.2 * height), waist, trousers),
        limb((0, -width, shoulder - 0.04), (0, width, shoulder - 0.04), 0.085, shirt),
        limb((0, 0, shoulder), (0, 0, shoulder + 0.12), 0.06, skin),
        *_human_head(draw, shoulder + 0.25, skin, trousers),
        *_arms(draw, width, shoulder - 0.05, thick, (shirt, skin)),
        *_legs(draw, width, hip, thick, (trousers, skin), bare=skirt),
    ]
    if pack:
        center, size = (-depth - 0.1, 0, hip + 0.65 * height), (0.1, 0.85 * width, 0.3 * height)
        parts.append(Part("box", center, size, draw.colour(0.1, 0.8)))
    if skirt:
        size = (0.08 + depth, 0.07 + width, 0.58 * hip)
        parts.append(Part("ellipsoid", (0, 0, hip - 0.14), size, trousers))
    return parts


def _human_head(draw: Draws, z: float, skin: np.ndarray, felt: np.ndarray) -> list[Part]:
    hair, hat, long_hair = draw.colour(0.03, 0.7, FUR), draw.choice(4), draw.flag(0.4)
    parts = [
        Part("ellipsoid", (0, 0, z), (0.14, 0.125, 0.17), skin),
        Part("ellipsoid", (-0.04, 0, z + 0.05), (0.145, 0.14, 0.155), hair),
        Part("ellipsoid", (0.14, 0, z - 0.02), (0.035, 0.025, 0.04), skin),
    ]
    if long_hair:
        parts.append(Part("ellipsoid", (-0.1, 0, z - 0.12), (0.08, 0.14, 0.24), hair))
    if hat in (1, 2):  # brimmed: wide and low, or narrow and tall
        brim, crown, tall = ((0.3, 0.15, 0.07), (0.22, 0.14, 0.14))[hat - 1]
        parts.append(Part("cylinder", (0, 0, z + 0.1), (brim, brim, 0.015), felt))
        parts.append(Part("cylinder", (0, 0, z + 0.1 + tall), (crown, crown, tall), felt))
    if hat == 3:  # a cap
        parts.append(Part("ellipsoid", (0, 0, z + 0.09), (0.165, 0.155, 0.12), felt))
        parts.append(Part("box", (0.18, 0, z + 0.09), (0.1, 0.1, 0.015), felt))
    return parts


def _arms(
    draw: Draws, width: float, shoulder: float, thick: float, colours: tuple[np.ndarray, np.ndarray]
) -> list[Part]:
    sleeve, skin = colours
    bare = draw.flag(0.5)
    parts = []
    for side in SIDES:
        lift, swing, bend = draw.uniform(-70, 45), draw.uniform(-35, 50), draw.uniform(0, 90)
        upper = turn(yaw=side * (90 - swing), pitch=lift)
        lower = turn(yaw=side * (90 - swing - bend), pitch=lift + 0.4 * bend)
        joint = np.array([0, side * (width + 0.04), shoulder])
        elbow = joint + upper @ [0.31, 0, 0]
        hand = elbow + lower @ [0.27, 0, 0]
        palm = hand + lower @ [0.07, 0, 0]
        parts += [
            limb(joint, elbow, 0.9 * thick, sleeve),
            limb(elbow, hand, 0.75 * thick, skin if bare else sleeve),
            Part("ellipsoid", palm, (0.1, 0.06, 0.06), skin, lower),
        ]
    return parts


def _legs(
    draw: Draws, width: float, hip: float, thick: float,
    colours: tuple[np.ndarray, np.ndarray], bare: bool,
) -> list[Part]:  # fmt: skip
    cloth, skin = colours
    stance, stride, shorts = draw.uniform(0.04, 0.25), draw.uniform(-0.35, 0.35), draw.flag(0.3)
    parts = []
    for side in SIDES:
        top = np.array([0, side * 0.5 * width, hip])
        ankle = np.array([side * stride, side * (0.5 * width + stance), 0.1])
        knee = moved(0.5 * (top + ankle), x=0.06, z=0.02)
        parts += [
            limb(top, knee, 1.25 * thick, cloth),
            limb(knee, ankle, thick, skin if shorts or bare else cloth),
            Part("box", moved(ankle, x=0.08, z=-0.05), (0.16, 0.07, 0.05), BLACK),
        ]
    return parts
