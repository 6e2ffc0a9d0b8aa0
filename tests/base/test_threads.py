import threading

import numpy as np
from threadpoolctl import ThreadpoolController

import scorevi
from scorevi.base.threads import one_thread, users_threads


def threads() -> set[int]:
    return {lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()}


def test_one_thread_inside_and_what_the_user_set_outside():
    np.linalg.cholesky(np.eye(2))
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        with one_thread():
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}


def test_a_target_has_as_many_as_the_user_has_set():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        with users_threads():
            assert threads() == {2}
        with one_thread(), one_thread():
            with users_threads():
                assert threads() == {2}
            assert threads() == {1}
        assert threads() == {2}


def test_two_fits_at_once_leave_the_setting_as_it_was():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        inside, may_leave = threading.Event(), threading.Event()

        def other() -> None:
            with one_thread():
                inside.set()
                may_leave.wait(10)

        thread = threading.Thread(target=other)
        with one_thread():
            thread.start()
            assert inside.wait(10)
        may_leave.set()
        thread.join()
        assert threads() == {2}


def test_a_fit_holds_them_and_gives_the_target_its_own():
    seen: dict[str, set[int]] = {"target": set(), "solver": set()}

    class Watched(scorevi.Replay):
        def step(self, state, batch):
            seen["solver"] |= threads()
            return super().step(state, batch)

    def score(theta):
        seen["target"] |= threads()
        return -theta

    def log_density(theta):
        return -0.5 * (theta**2).sum(-1)

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        target = scorevi.from_function(score, 3, log_density)
        scorevi.fit(target, solver=Watched(), max_gradients=60).check(modes=False)
        assert threads() == {2}
    assert seen == {"target": {2}, "solver": {1}}
