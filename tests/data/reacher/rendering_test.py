"""Cameras, the cures for a missing MuJoCo, and real images where it is installed."""

import importlib.util
import sys
import types

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from socialjepa_jax.data.reacher import rendering
from socialjepa_jax.data.reacher.rendering import Camera
from socialjepa_jax.errors import InputError

INSTALLED = all(importlib.util.find_spec(name) for name in ("mujoco", "dm_control"))
STATES = np.array([[0.4, 1.1], [-2.0, -0.7], [2.5, 2.9]])
TILTED = Camera(tilt=45.0, turn=90.0)


@pytest.mark.parametrize("camera", [Camera(), Camera(30.0), TILTED, Camera(10.0, -120.0)])
def test_a_camera_looks_at_the_shoulder_and_stands_upright(camera):
    place, (w, x, y, z) = camera.pose
    rotation = Rotation.from_quat([x, y, z, w])
    np.testing.assert_allclose(rotation.apply([0, 0, 1]), place, atol=1e-12)  # backwards
    assert place[2] == pytest.approx(np.cos(np.radians(camera.tilt)))
    right = rotation.apply([1, 0, 0])
    turn = np.radians(camera.turn)
    np.testing.assert_allclose(right, [np.cos(turn), np.sin(turn), 0], atol=1e-12)


@pytest.mark.parametrize("fields", [{"tilt": 81.0}, {"turn": 400.0}, {"size": 4}])
def test_a_camera_that_cannot_be_is_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Camera(**fields)


@pytest.fixture
def modules(monkeypatch):
    """Lets a test replace MuJoCo and dm_control by name."""
    rendering.mujoco.cache_clear()
    monkeypatch.setenv("MUJOCO_GL", "egl")
    yield lambda name, module: monkeypatch.setitem(sys.modules, name, module)
    rendering.mujoco.cache_clear()


def test_a_missing_mujoco_names_the_extra(modules):
    modules("mujoco", None)
    with pytest.raises(InputError, match=r"needs MuJoCo .*pip install 'socialjepa_jax\[reacher\]'"):
        rendering.photograph(STATES, Camera())


def test_another_version_of_mujoco_names_the_right_one(modules):
    modules("mujoco", types.SimpleNamespace(__version__="4.0.0"))
    message = r"^mujoco==4.0.0 cannot .*: pip install 'mujoco==3.17.\*'$"
    with pytest.raises(InputError, match=message):
        rendering.photograph(STATES, Camera())


def test_a_missing_dm_control_names_the_extra(modules):
    modules("mujoco", types.SimpleNamespace(__version__="3.17.0"))
    modules("dm_control", None)
    modules("dm_control.suite", None)
    with pytest.raises(InputError, match=r"needs dm_control .*socialjepa_jax\[reacher\]"):
        rendering.photograph(STATES, Camera())


def test_a_missing_renderer_names_both_back_ends(modules):
    def fail(*_):
        raise AttributeError("no EGL")

    modules("mujoco", types.SimpleNamespace(__version__="3.17.0", Renderer=fail))
    with pytest.raises(InputError, match=r"egl.*no renderer.*libegl1.*MUJOCO_GL=osmesa") as caught:
        with rendering._renderer(None, 64):
            pass
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def images():
    """Real images of three states by both cameras."""
    if not INSTALLED:
        pytest.skip("MuJoCo and dm_control are not installed: pip install '.[reacher]'")
    try:
        return [rendering.photograph(STATES, camera) for camera in (Camera(), TILTED)]
    except InputError as error:
        pytest.skip(str(error))


def test_images_are_those_of_the_suite(images):
    from dm_control.suite import reacher

    physics = reacher.Physics.from_xml_string(*reacher.get_model_and_assets())
    physics.named.model.geom_size["target", 0] = rendering.RADIUS
    physics.named.model.geom_pos["target", :2] = rendering.TARGET
    for state, image in zip(STATES, images[0]):
        with physics.reset_context():
            physics.data.qpos[:] = state
        shown = physics.render(64, 64, camera_id="fixed")
        assert np.abs(shown.astype(int) - image).mean() < 0.1
    physics.free()


def test_an_image_has_no_turns_and_every_state_its_own(images):
    turned = rendering.photograph(STATES + 2 * np.pi * np.array([1, -1]), Camera())
    assert np.abs(turned.astype(int) - images[0]).mean() < 0.05
    for shown in images:
        assert shown.shape == (3, 64, 64, 3) and shown.dtype == np.uint8
        apart = np.abs(shown[:, None].astype(int) - shown[None]).mean((2, 3, 4))
        assert apart[~np.eye(3, dtype=bool)].min() > 0.5
    assert np.abs(images[0].astype(int) - images[1]).mean() > 5
