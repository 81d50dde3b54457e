"""Rows of the comparison: a situation, and the behavior that counts as "holds".

The rows were written before the first run. A row that slgh loses stays. How some of them are tried was changed after
first results: docs/reliability.md lists the changes.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One situation.

    Parameters
    ----------
    name
        Name of the function in `cases.py` that tries it.
    section
        Group of rows on the page.
    situation
        What happens to the optimizer.
    holds
        What the optimizer has to do for the verdict "holds".
    """

    name: str
    section: str
    situation: str
    holds: str


VALUES = "Values of f"
FAILURES = "Exceptions, Ctrl-C and resume"
SHARING = "Buffers, threads and global state"
LIMITS = "Limits and seeds"
RETURNS = "What f returns"
FILES = "Saved states"
WORKERS = "Worker processes"

SOLVES = "The run ends, f(x) < 0.5, and the reported value is f(x)."
REFUSES = "An exception, or the point counts as failed: the answer is a real value of f, f(x) < 0.5."

ROWS = [
    Row("nan_region", VALUES, "f is NaN on half of the box", SOLVES),
    Row("nan_everywhere", VALUES, "f is NaN everywhere", "The run ends, and does not report success."),
    Row("plus_inf_region", VALUES, "f is +inf on half of the box", SOLVES),
    Row(
        "minus_inf_strip",
        VALUES,
        "f is -inf on a narrow strip",
        "The run ends, f(x) < 0.5 (-inf counts), and no reported value is NaN or differs from f(x).",
    ),
    Row("huge_values", VALUES, "values of size 1e300", "The run ends, f(x) < 0.5e300, and the reported value is f(x)."),
    Row("constant", VALUES, "f is constant", "The run ends within its budget, and reports the constant."),
    Row(
        "exception",
        FAILURES,
        "f raises at call 50: an exception of its own class, or ValueError",
        "The caller gets that exception, not another one.",
    ),
    Row(
        "exception_resume",
        FAILURES,
        "f raises at call 50; a second process resumes",
        "The second run makes at most the calls that were left, plus 30 (one generation).",
    ),
    Row(
        "ctrl_c",
        FAILURES,
        "Ctrl-C in f at call 100",
        "The best point is returned, or can be read from the object that the caller holds. It is at least as good as "
        "the best of the first 70 calls.",
    ),
    Row(
        "three_ctrl_c",
        FAILURES,
        "Ctrl-C three times, 0.3 s apart, with two workers where there are any; f takes 0.2 s",
        "Control is back 5 s after the first Ctrl-C, and a best point is there.",
    ),
    Row(
        "sigkill_resume",
        FAILURES,
        "SIGKILL at call 60; a second process resumes",
        "The result is the one of a run that was not killed, bit for bit.",
    ),
    Row("fun_writes", SHARING, "f writes into its argument", SOLVES),
    Row("vectorized_fun_writes", SHARING, "a vectorized f writes into its argument", SOLVES),
    Row(
        "callback_writes",
        SHARING,
        "the callback writes into every array that it is given",
        "The result is the one of a run whose callback does not write.",
    ),
    Row(
        "reused_buffer",
        SHARING,
        "ask and tell: values are told in one array that is overwritten afterwards",
        "The result is the one of fresh arrays.",
    ),
    Row(
        "interleaved",
        SHARING,
        "ask and tell: two optimizers in turn in one process",
        "Each gives the result that it gives alone.",
    ),
    Row("nested", SHARING, "f calls the optimizer", SOLVES),
    Row("threads", SHARING, "four runs in four threads", "Each gives the result that it gives alone."),
    Row(
        "global_random_state",
        SHARING,
        "a seeded run between two draws of np.random and random",
        "The global random states are as before.",
    ),
    Row(
        "seterr",
        SHARING,
        'the user has set np.seterr(all="raise"); values of size 1, and of size 1e300',
        "The run ends without FloatingPointError, f sees the user's setting, and it is still set afterwards.",
    ),
    Row("warnings_as_errors", SHARING, 'warnings.simplefilter("error")', SOLVES),
    Row(
        "hard_budget",
        LIMITS,
        "budgets of 1, 7, 50 and 101 calls",
        "f is never called more often than the budget says.",
    ),
    Row("bounds", LIMITS, "a minimum beyond a corner of the box", "No point outside the bounds is evaluated."),
    Row(
        "x0_outside",
        LIMITS,
        "x0 outside the bounds",
        "An exception, or a run that evaluates no point outside the bounds.",
    ),
    Row("same_seed", LIMITS, "the same seed twice", "The two results are equal bit for bit."),
    Row("returns_shape_1", RETURNS, "an array of shape (1,)", SOLVES),
    Row("returns_large_int", RETURNS, "Python integers of size 10**20 and more", SOLVES),
    Row("returns_none", RETURNS, "None on half of the box", REFUSES),
    Row("returns_complex", RETURNS, "a complex number on half of the box", REFUSES),
    Row("returns_string", RETURNS, "a string on half of the box", REFUSES),
    Row("returns_masked", RETURNS, "np.ma.masked on half of the box", REFUSES),
    Row(
        "damaged_state",
        FILES,
        "40 copies of a saved state, each with one flipped bit or a missing end",
        "Each copy is refused with an exception, or continued to the result of the sound one.",
    ),
    Row(
        "hostile_state",
        FILES,
        "a file with a pickle that runs a command is given in place of a saved state",
        "The command does not run.",
    ),
    Row("killed_worker", WORKERS, "a worker process is killed", "An exception, or the run goes on without it."),
    Row(
        "killed_parent",
        WORKERS,
        "the process that started the workers is killed with SIGKILL",
        "No worker is left after 10 s.",
    ),
    Row(
        "wrong_map",
        WORKERS,
        "a map (or function of a list) returns one value too few, or one too many",
        "An exception in both cases.",
    ),
]
