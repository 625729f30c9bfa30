"""Changes that no test can notice, with the reason; they are not counted."""

from tests.mutants.mutant import Mutant

EQUIVALENT: tuple[tuple[Mutant, str], ...] = ()
