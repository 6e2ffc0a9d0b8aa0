"""The example of docs/adding-a-solver.md goes through the tests that every solver goes through."""

import re
from pathlib import Path

import numpy as np
import pytest
import test_compiled
import test_run
from conftest import TARGETS

import scorevi
from scorevi.solvers import SOLVERS

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-solver.md"


@pytest.fixture
def dropped_in(monkeypatch):
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0]
    scope = {"__name__": "natural"}
    exec(compile(code, str(PAGE), "exec"), scope)
    monkeypatch.setitem(SOLVERS, "natural", scope["Natural"])
    return "natural"


@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_on_every_target(dropped_in, name):
    test_run.test_every_solver_on_every_target(dropped_in, TARGETS[name]())


@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
def test_contract_seeds_and_iterate(dropped_in):
    test_run.test_solvers_meet_the_protocol(dropped_in)
    test_run.test_same_seed_same_bits(dropped_in)
    test_run.test_iterate_yields_the_updates_of_fit(dropped_in)


@pytest.mark.jax
@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
@pytest.mark.parametrize("dim", [1, 4, 80])
def test_numpy_equals_jax(dropped_in, dim):
    test_compiled.test_the_iterates_are_those_of_the_numpy_driver(dim, dropped_in)


def test_it_works(dropped_in):
    p = scorevi.examples.random_gaussian(5, 10, seed=0)
    target = scorevi.examples.gaussian(p.mean, p.covariance)
    fit = scorevi.fit(target, solver=dropped_in, max_gradients=8000)
    assert fit.q.kl(p) < 0.05
    assert np.isfinite(fit.elbo)
