"""Divergences between two models' predictions: Hinton's distillation and deep mutual learning.

Shape key: B batch, C classes.
"""

import jax
import jax.numpy as jnp


def kullback_leibler(p_BC: jax.Array, q_BC: jax.Array) -> jax.Array:
    """Returns KL(softmax(p) || softmax(q)) of logits f32[B, C]: f32[B]."""
    log_p, log_q = jax.nn.log_softmax(p_BC), jax.nn.log_softmax(q_BC)
    return (jnp.exp(log_p) * (log_p - log_q)).sum(-1)


def distillation(teacher_BC: jax.Array, student_BC: jax.Array, temperature: float) -> jax.Array:
    """Returns T^2 KL(softmax(t / T) || softmax(s / T)): f32[B] (Hinton et al. 2015, section 2).

    T^2 keeps the gradient's size, which falls with 1 / T^2.

    Args:
        teacher_BC: logits; a constant.
        student_BC: logits.
        temperature: T.
    """
    teacher_BC = jax.lax.stop_gradient(teacher_BC)
    return temperature**2 * kullback_leibler(teacher_BC / temperature, student_BC / temperature)


def mutual(own_BC: jax.Array, peer_BC: jax.Array) -> jax.Array:
    """Returns KL(peer || own): f32[B] (Zhang et al. 2018, eq. 5); no gradient reaches the peer."""
    return kullback_leibler(jax.lax.stop_gradient(peer_BC), own_BC)
