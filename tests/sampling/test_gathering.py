"""Points of several chains, evaluated together."""

import threading

import numpy as np
import pytest

import scorevi
from scorevi.sampling.gathering import Gathering

CHAINS = 3


class Cut(Gathering):
    """One whose answers are cut off by Ctrl-C, once, after so many of them."""

    def __init__(self, after):
        target = scorevi.from_function(
            np.negative, 2, lambda x: -0.5 * np.vecdot(x, x), batched=True
        )
        super().__init__(target, CHAINS)
        self.after = after

    def _hand_out(self, chains, answer):
        after, self.after = self.after, CHAINS
        super()._hand_out(chains[:after], answer)
        if after < CHAINS:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", range(CHAINS))
def test_whoever_waits_is_served_though_ctrl_c_came_in_between(after):
    gathering, found = Cut(after), {}

    def chain(number):
        found[number] = gathering.ask(number, np.full(2, float(number)))
        gathering.leave()

    threads = [threading.Thread(target=chain, args=(k,), daemon=True) for k in range(CHAINS)]
    for thread in threads:
        thread.start()
    with pytest.raises(KeyboardInterrupt):
        gathering.serve(patience=60.0)
    while any(thread.is_alive() for thread in threads):
        assert gathering.serve(patience=60.0) or not any(t.is_alive() for t in threads)
    for number in range(CHAINS):
        np.testing.assert_array_equal(found[number].score, np.full((1, 2), -float(number)))


def test_an_old_answer_is_not_taken_for_a_new_one():
    gathering = Cut(CHAINS)
    gathering._answers[0] = gathering.target.evaluate(np.zeros((1, 2)))
    for _ in range(CHAINS - 1):
        gathering.leave()
    asked = []
    thread = threading.Thread(
        target=lambda: asked.append(gathering.ask(0, np.ones(2))), daemon=True
    )
    thread.start()
    assert gathering.serve(patience=60.0)
    thread.join(timeout=60.0)
    np.testing.assert_array_equal(asked[0].score, -np.ones((1, 2)))
