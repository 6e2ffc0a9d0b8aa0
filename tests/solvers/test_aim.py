"""Where the mean should be: what is noise, what is a way to go, and when that is over."""

import numpy as np

from scorevi import LowRank
from scorevi.engine.arrival_pairs import ArrivalOfPairs
from scorevi.families.mirrored import Mirrored
from scorevi.solvers.aim import Aim
from scorevi.solvers.base import Batch
from scorevi.solvers.structure import Past, Structure

DIM = 2000


def one_direction(value=0.1):
    """A precision that is one, but for a direction of which each coordinate has little."""
    nothing = np.zeros(DIM)
    direction = np.full((DIM, 1), DIM**-0.5)
    past = Past(nothing, nothing)
    return Structure(np.ones(DIM), nothing, direction, np.array([value]), past, nothing)


def test_a_way_along_a_direction_is_seen_beside_the_noise_of_all_coordinates():
    rng = np.random.default_rng(0)
    found, q, aim = one_direction(), LowRank.standard(DIM), Aim.nowhere(LowRank.standard(DIM))
    drift = 0.3 * found.directions[:, 0] * found.values  # Newton's step is 0.3 along it
    for step in range(1, 9):
        even = drift + 0.1 * rng.standard_normal((32, DIM))
        aim, trust = aim.after(q, found, even, 32 * step)
        q = LowRank(aim.place, q.scale)  # where scores say the same again
    assert trust < 0.3
    assert aim.weight_along < 100 < aim.weight
    assert aim.steady == aim.weight_along
    assert aim.place @ found.directions[:, 0] > 8 * 0.2


def test_noise_does_not_draw_the_step_back_to_where_q_was():
    # Eight means a little apart, with scores that are the same but for noise: what all changes have
    # in common with the last score is its noise. 200 steps, each with a standard deviation of 0.14
    # along the direction, have a mean whose standard error is 0.01.
    rng = np.random.default_rng(1)
    found, q = one_direction(value=1.0), LowRank.standard(DIM)
    way = found.directions[:, 0]
    means = -np.arange(8.0, 0.0, -1.0)[:, None] * way
    noise, steps = 0.02 * DIM, []
    for _ in range(200):
        scores = way + np.sqrt(0.02) * rng.standard_normal((9, DIM))
        aim = Aim(q.mean, 1.0, 1.0, means, scores[:8])
        steps.append(float(aim._newton(q, found, scores[8], noise) @ way))
    assert abs(np.mean(steps) - 1.0) < 0.1


def test_a_mean_that_is_off_along_a_direction_has_not_arrived():
    rng = np.random.default_rng(2)
    direction = np.full((DIM, 1), DIM**-0.5)
    p = LowRank(np.zeros(DIM), np.ones(DIM), direction, np.array([10.0]))
    arrivals = []
    for off in (0.0, 1.0):
        q = LowRank(10.0 * off * direction[:, 0], p.scale, p.directions, p.widths)
        arrival = ArrivalOfPairs()
        for _ in range(20):
            points = Mirrored(q).points(rng.standard_normal((16, DIM)))
            arrival.add(q, Batch.of(q, points, p.score(points.theta), None))
        arrivals.append(arrival.near(q))
    assert arrivals[0].is_within(0.1)
    assert arrivals[1].mean > 0.9  # of each coordinate it is 0.2 sd


def test_one_coordinate_that_is_off_has_not_arrived():
    rng = np.random.default_rng(3)
    p = LowRank.standard(DIM)
    q = LowRank(np.eye(1, DIM)[0], p.scale)
    arrival = ArrivalOfPairs()
    for _ in range(20):
        points = Mirrored(q).points(rng.standard_normal((16, DIM)))
        arrival.add(q, Batch.of(q, points, p.score(points.theta), None))
    assert arrival.near(q).mean > 0.9
