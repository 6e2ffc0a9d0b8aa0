"""JAX targets whose argument is a pytree: names from the paths, and what ArviZ is told."""

import importlib.util
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import SHORT

import scorevi

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.jax


class Group(NamedTuple):
    mu: Any
    scales: list


@jax.tree_util.register_dataclass
@dataclass
class Model:
    loc: Any
    rest: dict


class Opaque:
    """A node that JAX knows by position only."""

    def __init__(self, inside):
        self.inside = inside


jax.tree_util.register_pytree_node(
    Opaque, lambda node: ((node.inside,), None), lambda _, children: Opaque(*children)
)


def bowl(tree):
    return -0.5 * sum((leaf**2).sum() for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ({"group": {"mu": 0.0, "beta": np.zeros(2)}}, {"group.beta": (2,), "group.mu": ()}),
        ([np.zeros(2), 0.0], {"0": (2,), "1": ()}),
        ((1, True), {"0": (), "1": ()}),
        (
            {"group": Group(np.zeros(2), [1.0, np.zeros((2, 2))])},
            {"group.mu": (2,), "group.scales.0": (), "group.scales.1": (2, 2)},
        ),
        (Model(0.0, {"b": 1.0, "a": np.zeros(3)}), {"loc": (), "rest.a": (3,), "rest.b": ()}),
        (OrderedDict(b=0.0, a=np.zeros(2)), {"b": (), "a": (2,)}),
        ({3: 0.0}, {"3": ()}),
        ({"a": None, "b": 1.0}, {"b": ()}),
        (Opaque(np.zeros(2)), {"0": (2,)}),
        (np.zeros((2, 3)), {"theta": (2, 3)}),
        (2.5, {"theta": ()}),
        ({"a": jax.ShapeDtypeStruct((3,), np.float32)}, {"a": (3,)}),
        ({"a": jnp.zeros(2, jnp.bfloat16)}, {"a": (2,)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_names_and_shapes_are_those_of_the_paths(example, expected):
    target = scorevi.from_jax(bowl, example)
    assert dict(target.parameters) == expected
    assert list(dict(target.parameters)) == list(expected)
    theta = np.random.default_rng(0).standard_normal((3, target.dim))
    np.testing.assert_allclose(target.evaluate(theta).score, -theta)
    draws = scorevi.fit(target, "gsm", max_gradients=20, progress=False).draws(4, seed=0)
    assert {name: values.shape[1:] for name, values in draws.items()} == expected


def test_each_leaf_gets_its_own_entries():
    example = {"a": np.zeros((2, 2)), "b": [0.0, np.zeros(3)]}
    weights = {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": [5.0, np.array([6.0, 7.0, 8.0])]}

    def log_density(tree):
        products = jax.tree.map(lambda weight, leaf: (weight * leaf).sum(), weights, tree)
        return sum(jax.tree.leaves(products))

    target = scorevi.from_jax(log_density, example)
    np.testing.assert_array_equal(target.evaluate(np.zeros((1, 8))).score, [np.arange(1.0, 9.0)])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_batches_of_every_size(size):
    """They are filled up before they are evaluated; nobody should see it."""
    target = scorevi.from_jax(bowl, 3)
    theta = np.random.default_rng(0).standard_normal((13, 3))
    score, log_density, _ = target.evaluate(theta[:size])
    np.testing.assert_array_equal(score, -theta[:size])
    np.testing.assert_allclose(log_density, -0.5 * (theta[:size] ** 2).sum(axis=1))
    assert (score.shape, log_density.shape) == ((size, 3), (size,))


@pytest.mark.parametrize(
    ("constrain", "shapes"),
    [
        (lambda p: jnp.exp(p["x"]), {"theta": (3,)}),
        (lambda p: (p["x"], 2.0), {"0": (3,), "1": ()}),
        (lambda p: {"a": {"b": p["x"][0]}, "c": [p["x"]]}, {"a.b": (), "c.0": (3,)}),
        (lambda p: Group(p["x"], [p["x"] > 0]), {"mu": (3,), "scales.0": (3,)}),
        (lambda p: OrderedDict(z=p["x"], a=p["x"].sum()), {"z": (3,), "a": ()}),
    ],
)
def test_constrain_may_return_any_tree(constrain, shapes):
    target = scorevi.from_jax(bowl, {"x": np.zeros(3)}, constrain=constrain)
    values = target.variables.constrained(np.ones((4, 3)))
    assert {name: value.shape[1:] for name, value in values.items()} == shapes
    assert list(values) == list(shapes)


def test_names_that_coincide_are_refused():
    target = scorevi.from_jax(bowl, 2, constrain=lambda x: {"a": {"b": x}, "a.b": x})
    with pytest.raises(ValueError, match=r"`constrain` must give distinct names; a\.b occurs"):
        target.variables.constrained(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"a": "text"}, "'a' is of type str, without a dtype"),
        ({"a": 1j}, "'a' is of type complex"),
        ({"a": np.array(["x"])}, "'a' is of type ndarray, <U1"),
        ({"a": {"b": np.zeros((2, 0))}}, "'a.b' is empty"),
        (jax.random.key(0), "must hold arrays of real numbers; 'theta' is of type"),
        ({"a": None}, "must be a dimension or hold at least one array"),
    ],
)
def test_examples_that_will_not_do_are_named(example, message):
    with pytest.raises(ValueError, match=message):
        scorevi.from_jax(bowl, example)


@pytest.mark.parametrize("name", ["constrain", "derive", "log_likelihood"])
def test_what_is_no_function_is_refused(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a function; got int"):
        scorevi.from_jax(bowl, 2, **{name: 3})


Y = np.array([0.3, 1.2, -0.4])


def measured():
    """Three measurements of a mean with a scale, as one would write it in JAX."""

    def unpack(p):
        return p["mu"], jnp.exp(p["log_sigma"])

    def log_likelihood(p):
        mu, sigma = unpack(p)
        return {"y": -0.5 * ((Y - mu) / sigma) ** 2 - jnp.log(sigma)}

    def log_density(p):
        prior = -0.5 * p["mu"] ** 2 - 0.5 * p["log_sigma"] ** 2
        return prior + log_likelihood(p)["y"].sum()

    def constrain(p):
        mu, sigma = unpack(p)
        return {"mu": mu, "sigma": sigma}

    return scorevi.from_jax(
        log_density,
        {"mu": 0.0, "log_sigma": 0.0},
        constrain=constrain,
        derive=lambda p: {"residual": Y - p["mu"]},
        log_likelihood=log_likelihood,
        observed={"y": Y},
        dims={"y": ["day"], "residual": ["day"]},
        coords={"day": ["mon", "tue", "wed"]},
    )


@SHORT
def test_draws_hold_parameters_and_what_follows():
    fit = scorevi.fit(measured(), seed=0, max_gradients=200)
    assert list(fit.draws(5, seed=0, include="parameters")) == ["mu", "sigma"]
    draws = fit.draws(5, seed=0)
    assert list(draws) == ["mu", "sigma", "residual"]
    np.testing.assert_allclose(draws["residual"], Y - draws["mu"][:, None])
    assert [row.name for row in fit.summary][-1] == "residual[wed]"


@pytest.mark.slow
@SHORT
@pytest.mark.skipif(importlib.util.find_spec("arviz") is None, reason="needs the arviz extra")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_arviz_gets_all_of_it():
    data = scorevi.fit(measured(), seed=0, max_gradients=200).to_arviz(7, seed=0)
    assert set(data["posterior"].data_vars) == {"mu", "sigma", "residual"}
    assert data["posterior"]["residual"].dims == ("chain", "draw", "day")
    assert list(data["posterior"]["day"].values) == ["mon", "tue", "wed"]
    assert data["log_likelihood"]["y"].shape == (1, 7, 3)
    assert data["log_likelihood"]["y"].dims == ("chain", "draw", "day")
    np.testing.assert_array_equal(data["observed_data"]["y"], Y)
    assert set(data["unconstrained_posterior"].data_vars) == {"mu", "log_sigma"}


def test_no_rows_are_no_trouble():
    target = scorevi.from_jax(
        lambda p: -0.5 * p["a"] ** 2, {"a": 0.0}, derive=lambda p: {"twice": 2 * p["a"]}
    )
    evaluation = target.evaluate(np.empty((0, 1)))
    assert evaluation.score.shape == (0, 1)
    assert target.variables.derived(np.empty((0, 1)), 0)["twice"].shape == (0,)


def test_the_users_own_function_goes_on_to_work_in_single_precision():
    """JAX remembers what it has made of a NumPy array without noting the precision."""
    rng = np.random.default_rng(0)
    x, group = rng.standard_normal((30, 2)), rng.integers(0, 2, 30)

    def log_density(beta):
        return -0.5 * ((x @ beta + beta[group]) ** 2).sum() - 0.5 * (beta**2).sum()

    def derive(beta):
        return {"line": x @ beta}

    target = scorevi.from_jax(log_density, 2, derive=derive)
    fit = scorevi.fit(target, seed=0)
    assert fit.draws(5, seed=1)["line"].dtype == np.float64
    # To double precision, although the user's is single.
    inverse = -np.array([target.evaluate(row[None]).score[0] for row in np.eye(2)])
    np.testing.assert_allclose(np.linalg.inv(fit.q.covariance), inverse, rtol=1e-9)
    theirs = log_density(jnp.zeros(2) + 0.5)
    assert theirs.dtype == jax.grad(log_density)(jnp.zeros(2)).dtype == np.float32
    assert jnp.asarray(x).dtype == np.float32
