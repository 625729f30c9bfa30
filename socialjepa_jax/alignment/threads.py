"""Results that do not depend on the number of threads, and so neither on cores nor on settings."""

import contextlib
from collections.abc import Iterator

import scipy.linalg  # noqa: F401 (its BLAS must be loaded to be limited)
import threadpoolctl


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Lets BLAS and LAPACK compute in one thread, in a context or in a decorated function.

    Their sums depend on how many threads share them: with each number of cores, and with each
    value of OMP_NUM_THREADS, they differ in the last digits, which eigenvectors magnify.

    XLA's own pool needs no limit where it only multiplies matrices and sums along rows, which it
    splits between results. It splits sums along columns otherwise: write those as products.
    """
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield
