"""Body plans of the toy world's airplanes, trucks and cars, under the rules of `creatures`."""

from typing import Any

import numpy as np

from socialjepa_jax.data.toys.parts import (
    PLAIN,
    SIDES,
    Draws,
    Part,
    Point,
    along,
    limb,
    moved,
    spot,
    stripes,
    turn,
    wheel,
)

BLACK, GLASS, STEEL = np.full(3, 0.05), np.array([0.1, 0.13, 0.17]), np.full(3, 0.6)
WHITE, RED = np.ones(3), np.array([0.6, 0.05, 0.05])
FORWARD, ACROSS = along((1, 0, 0)), along((0, 1, 0))  # rotations of round parts


def airplane(draw: Draws) -> list[Part]:
    """Makes an airplane on its wheels: glider, propellers or jets, one or two pairs of wings."""
    radius, span = draw.uniform(0.11, 0.17), draw.uniform(0.75, 1.3)
    chord = draw.uniform(0.13, 0.24)
    sweep, dihedral, level = draw.uniform(-4, 38), draw.uniform(0, 7), draw.choice(3)
    paint, second = draw.colour(0.25, 0.9), draw.colour(0.06, 0.85)
    kind, oval, bands = draw.choice(5), draw.flag(0.4), draw.flag(0.5)
    fin, tail, high = draw.uniform(0.25, 0.42), draw.uniform(0.32, 0.52), draw.flag(0.3)
    canopy, two_decks = draw.uniform(0.1, 0.6), draw.flag(0.35)

    z = 0.22 + radius
    deck = z + (-0.75, 0.0, 0.9)[level] * radius
    look: dict[str, Any] = {"colour": draw.colour(0.2, 0.9), "second": second}
    look["pattern"] = stripes(y=5, phase=1) if bands else PLAIN
    shape = "ellipsoid" if oval else "box"
    tail_z = z + (fin if high else 0.3 * radius)
    lean = turn(pitch=-25)
    parts = [
        *_fuselage(draw, z, radius, paint, second),
        Part("ellipsoid", (canopy, 0, z + 0.8 * radius), (0.17, 0.6 * radius, 0.09), GLASS),
        *_wings(shape, (0.12, 0, deck), (chord, span, 0.022), sweep, dihedral, look),
        *_wings("box", (-0.88, 0, tail_z), (0.11, tail, 0.018), 0.8 * sweep, 0, look),
        Part("box", (-0.9, 0, z + 0.5 * fin), (0.12, 0.018, 0.55 * fin), second, lean),
        *_engines(kind, (z, deck), radius, span, sweep, second),
    ]
    if two_decks and kind < 3:
        top = z + 2.6 * radius
        parts += _wings(shape, (0.16, 0, top), (chord, 0.9 * span, 0.022), sweep, 0, look)
        for side in SIDES:
            x, y = 0.14 - 0.5 * span * np.sin(np.radians(sweep)), side * 0.5 * span
            parts.append(limb((x, y, deck), (x, y, top), 0.02, BLACK))
    for x, y in ((0.25, 0.3), (0.25, -0.3), (0.7 if level else -0.75, 0)):
        parts.append(limb((x, y, 0.09), (x, 0.3 * y, z - 0.3 * radius), 0.022, STEEL))
        parts.append(wheel((x, y, 0.09), 0.09, 0.06, STEEL))
    return parts


def _fuselage(
    draw: Draws, z: float, radius: float, paint: np.ndarray, second: np.ndarray
) -> list[Part]:
    tube, pattern = draw.flag(0.5), draw.choice(4)
    look: dict[str, Any] = {"colour": paint, "second": second}
    if not tube:
        wave = (PLAIN, stripes(z=2.5, phase=2.2), stripes(x=11), stripes(x=3))[pattern]
        size = (1.0, 1.15 * radius, 1.15 * radius)
        return [Part("ellipsoid", (0, 0, z), size, pattern=wave, **look)]
    # The capsule's own coordinates are in radii: z runs forward, x up.
    wave = (PLAIN, stripes(x=2.5, phase=2.2), stripes(z=3), stripes(z=1))[pattern]
    size, rear = (radius, radius, 0.72), (0.55, 0.9 * radius, 0.8 * radius)
    return [
        Part("capsule", (0.28, 0, z), size, rotation=FORWARD, pattern=wave, **look),
        Part("ellipsoid", (-0.5, 0, z + 0.2 * radius), rear, paint),
    ]


def _wings(
    kind: str, root: Point, size: Point, sweep: float, dihedral: float, look: dict[str, Any]
) -> list[Part]:
    """Makes a pair of swept wings; size is (half chord, span of one wing, half thickness)."""
    chord, span, thickness = size
    wings = []
    for side in SIDES:
        way = turn(yaw=side * sweep, roll=side * dihedral)
        center = np.array(root) + way @ [0, 0.5 * side * span, 0]
        mirrored = look | {"pattern": np.array(look["pattern"]) * [1, side, 1, 1, 1]}
        half = (chord, 0.55 * span, thickness)
        wings.append(Part(kind, center, half, rotation=way, **mirrored))
    return wings


def _engines(
    kind: int, heights: Point, radius: float, span: float, sweep: float, paint: np.ndarray
) -> list[Part]:
    """Makes the engines: 0 none, 1 nose propeller, 2 wing propellers, 3 wing jets, 4 tail jets."""
    z, deck = heights
    if kind == 0:
        return []
    if kind == 1:
        return _propeller((0.98, 0, z), paint)
    x, y = 0.12 - 0.42 * span * np.sin(np.radians(sweep)), 0.42 * span
    parts = []
    for side in SIDES:
        place = ((x + 0.12, side * y, deck), (x + 0.16, side * y, deck - 0.07))
        tail = (-0.5, side * 1.9 * radius, z + 0.6 * radius)
        center = (*place, tail)[kind - 2]
        parts.append(Part("capsule", center, (0.08, 0.08, 0.23), paint, FORWARD))
        if kind == 2:
            parts += _propeller((x + 0.36, side * y, deck), paint)
    return parts


def _propeller(center: Point, paint: np.ndarray) -> list[Part]:
    return [
        Part("ellipsoid", center, (0.09, 0.05, 0.05), paint),
        Part("box", center, (0.012, 0.25, 0.028), BLACK, turn(roll=25)),
    ]


def truck(draw: Draws) -> list[Part]:
    """Makes a truck: a cab over or behind the engine, and one of six loads."""
    radius, bed, width = draw.uniform(0.15, 0.22), draw.uniform(0.95, 1.9), draw.uniform(0.33, 0.43)
    cab, height, hood = draw.uniform(0.4, 0.6), draw.uniform(0.5, 0.78), draw.uniform(0.25, 0.42)
    paint, hub = draw.colour(0.1, 0.9, vivid=0.9), draw.colour(0.4, 0.9)
    bonnet, double, stacks, roof = draw.flag(0.5), draw.flag(0.5), draw.flag(0.4), draw.choice(3)

    hood *= bonnet
    floor, front, x = 1.5 * radius, bed + cab + hood, bed + 0.5 * cab
    top, glass = floor + height, floor + 0.72 * height
    windscreen = (0.43 * cab, 0.85 * width, 0.17 * height)
    windows = (0.24 * cab, 1.02 * width, 0.15 * height)
    parts = [
        Part("box", (0.5 * front, 0, floor), (0.5 * front, 0.7 * width, 0.07), BLACK),
        Part("box", (front, 0, floor - 0.02), (0.05, width, 0.06), STEEL),
        Part("box", (x, 0, floor + 0.5 * height), (0.46 * cab, width, 0.5 * height), paint),
        Part("box", (x + 0.05 * cab, 0, glass), windscreen, GLASS),
        Part("box", (x + 0.06, 0, glass), windows, GLASS),
    ]
    if bonnet:
        size = (0.55 * hood, 0.8 * width, 0.27 * height)
        parts.append(Part("box", (front - 0.5 * hood, 0, floor + size[2]), size, paint))
    if roof == 1:  # a wind deflector
        parts.append(Part("ellipsoid", (x, 0, top), (0.3 * cab, 0.85 * width, 0.14), paint))
    if roof == 2:  # a light bar
        parts.append(Part("box", (x, 0, top + 0.04), (0.05, 0.6 * width, 0.04), STEEL))
    axles = [front - max(0.6 * hood, 0.25), 0.3] + [0.3 + 2.15 * radius] * double
    for side in SIDES:
        lamp = (front, side * 0.65 * width, floor + 0.2 * height)
        parts.append(Part("ellipsoid", lamp, (0.04, 0.06, 0.06), WHITE))
        parts += [wheel((x, side * 0.88 * width, radius), radius, 0.14, hub) for x in axles]
        if stacks:
            pipe = (bed - 0.02, side * 0.9 * width, floor)
            parts.append(limb(pipe, moved(pipe, z=height + 0.2), 0.035, STEEL))
    return parts + _load(draw, (bed - 0.06, width, floor + 0.07), paint)


def _load(draw: Draws, space: Point, paint: np.ndarray) -> list[Part]:
    """Makes a truck's load on a bed of `space` (length, half width, height of its floor)."""
    kind, pattern, height = draw.choice(6), draw.choice(4), draw.uniform(0.3, 0.75)
    colour = draw.colour(0.15, 0.95)
    length, width, floor = space
    x = 0.5 * length
    waves = (PLAIN, stripes(z=2, phase=0.6), stripes(x=9), stripes(x=4, z=4))
    look: dict[str, Any] = {"second": paint, "pattern": waves[pattern]}
    if kind == 0:  # a closed box
        size = (x, width, 0.5 * height + 0.15)
        return [Part("box", (x, 0, floor + size[2]), size, colour, **look)]
    if kind == 1:  # a tank
        center, r = (x, 0, floor + 0.95 * width), 0.95 * width
        return [
            Part("cylinder", center, (r, r, x), colour, FORWARD, paint, spot(0.5)),
            Part("cylinder", center, (1.03 * r, 1.03 * r, 0.03), paint, FORWARD),
        ]
    if kind == 2:
        return _tipper(x, width, floor, colour, paint)
    base = Part("box", (x, 0, floor), (x, width, 0.03), paint)
    if kind == 3:  # crates
        crates = [(0.2, 0.8, 0.5), (0.52, 0.7, 0.85), (0.84, 0.6, 0.35)]
        sizes = [(0.14 * length, wide * width, 0.4 * tall * height) for _, wide, tall in crates]
        centers = [(crate[0] * length, 0, floor + size[2]) for crate, size in zip(crates, sizes)]
        return [base, *(Part("box", c, s, colour, **look) for c, s in zip(centers, sizes))]
    if kind == 4:
        return [base, *_logs(length, width, floor, colour)]
    drum = turn(pitch=-14)
    size, mouth = (0.95 * x, width, width), (0.08, 0, floor + 1.3 * width)
    return [
        base,
        Part("ellipsoid", (x, 0, floor + 1.05 * width), size, colour, drum, paint, stripes(5, 3)),
        Part("cylinder", mouth, (0.35 * width, 0.35 * width, 0.16), paint, along((-1, 0, 0.6))),
    ]


def _tipper(
    x: float, width: float, floor: float, colour: np.ndarray, sand: np.ndarray
) -> list[Part]:
    tip = turn(pitch=22)
    middle = np.array([0.0, 0, floor]) + tip @ [x, 0, 0.2]
    places = [(0, width, 0), (0, -width, 0), (0, 0, -0.2), (x, 0, 0.05)]
    sizes = [(x, 0.03, 0.2), (x, 0.03, 0.2), (x, width, 0.03), (0.03, width, 0.25)]
    walls = [Part("box", middle + tip @ p, s, colour, tip) for p, s in zip(places, sizes)]
    return [*walls, Part("ellipsoid", middle, (0.85 * x, 0.9 * width, 0.26), sand, tip)]


def _logs(length: float, width: float, floor: float, colour: np.ndarray) -> list[Part]:
    r = 0.31 * width
    stack = [(-2.05, 1), (0, 1), (2.05, 1), (-1.02, 2.75), (1.02, 2.75), (0, 4.5)]
    ends = [(0, y * r, floor + z * r) for y, z in stack]
    logs = [limb(moved(end, x=0.1), moved(end, x=length - 0.12), r, colour) for end in ends]
    feet = [(u * length, side * width, floor) for u in (0.2, 0.8) for side in SIDES]
    return [*logs, *(limb(foot, moved(foot, z=0.4), 0.03, BLACK) for foot in feet)]


def car(draw: Draws) -> list[Part]:
    """Makes a car: coupe, saloon, estate or open, with optional spoiler or roof box."""
    length, width = draw.uniform(0.75, 1.05), draw.uniform(0.36, 0.46)
    radius = draw.uniform(0.15, 0.22)
    nose, tail, height = draw.uniform(0.08, 0.3), draw.uniform(0.06, 0.24), draw.uniform(0.13, 0.19)
    paint, second = (draw.colour(0.08, 0.95, vivid=0.95) for _ in range(2))
    hub, pattern, extra = draw.colour(0.4, 0.9), draw.choice(4), draw.choice(3)

    z = 0.8 * radius + height
    middle, straight = 0.5 * (tail - nose), length - 0.5 * (nose + tail)
    front, back = middle + straight, middle - straight
    waves = (PLAIN, PLAIN, stripes(y=4, phase=np.pi / 2), stripes(z=2, phase=-0.3))
    look: dict[str, Any] = {"second": second, "pattern": waves[pattern]}
    parts = [
        Part("box", (middle, 0, z), (straight, width, height), paint, **look),
        Part("cylinder", (front, 0, z), (height, nose, width), paint, ACROSS),
        Part("cylinder", (back, 0, z), (height, tail, width), paint, ACROSS),
        *_cabin(draw, length, width, z + height, (paint, second), box=extra == 1),
    ]
    for side in SIDES:
        y, lamp_z = side * 0.7 * width, z + 0.25 * height
        lamps = ((front + 0.85 * nose, WHITE), (back - 0.85 * tail, RED))
        parts += [Part("ellipsoid", (x, y, lamp_z), (0.05, 0.08, 0.05), c) for x, c in lamps]
        axles = (-0.6 * length, 0.62 * length)
        parts += [wheel((x, side * 0.92 * width, radius), radius, 0.13, hub) for x in axles]
        if extra == 2:
            foot = (-length + 0.05, side * 0.6 * width, z + height - 0.05)
            parts.append(limb(foot, moved(foot, x=-0.05, z=0.17), 0.025, BLACK))
    if extra == 2:  # a spoiler
        wing = (-length, 0, z + height + 0.12)
        parts.append(Part("box", wing, (0.09, 0.9 * width, 0.02), second))
    return parts


def _cabin(
    draw: Draws, length: float, width: float, base: float,
    colours: tuple[np.ndarray, np.ndarray], box: bool,
) -> list[Part]:  # fmt: skip
    """Makes windows and a roof between rounded screens, or the seats of an open car."""
    straight, height, place = draw.uniform(0.1, 0.55), draw.uniform(0.2, 0.38), draw.uniform(0, 0.6)
    screen, rear = draw.uniform(0.16, 0.42), draw.uniform(0.05, 0.45)
    open_top, two_tone = draw.flag(0.2), draw.flag(0.4)
    room = max(2 * length - 0.5 - straight - screen - rear, 0)
    back = -length + 0.1 + rear + place * room
    x, w = back + 0.5 * straight, 0.86 * width
    paint, second = colours
    if open_top:
        return _seats(x, width, base, second)
    roof = second if two_tone else paint
    middle = (x, 0, base + 0.5 * height)
    parts = [
        Part("box", middle, (0.5 * straight, w, 0.5 * height), GLASS),
        Part("box", middle, (0.03, 1.03 * w, 0.5 * height), roof),
        Part("box", (x, 0, base + height), (0.5 * straight + 0.05, 0.97 * w, 0.03), roof),
        Part("cylinder", (back + straight, 0, base), (height, screen, w), GLASS, ACROSS),
        Part("cylinder", (back, 0, base), (height, rear, w), GLASS, ACROSS),
    ]
    if box:
        size = (0.2, 0.4 * width, 0.05)
        parts.append(Part("box", (x, 0, base + height + 0.07), size, second))
    return parts


def _seats(x: float, width: float, base: float, leather: np.ndarray) -> list[Part]:
    size, lean, slope = (0.05, 0.28 * width, 0.14), turn(pitch=12), turn(pitch=30)
    places = [(x - 0.15, side * 0.4 * width, base + 0.1) for side in SIDES]
    return [
        *(Part("box", place, size, leather, lean) for place in places),
        Part("box", (x, 0, base), (0.36, 0.8 * width, 0.015), BLACK),
        Part("box", (x + 0.36, 0, base + 0.1), (0.015, 0.85 * width, 0.13), GLASS, slope),
    ]
