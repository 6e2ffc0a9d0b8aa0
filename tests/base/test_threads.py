import threading

import numpy as np
from threadpoolctl import ThreadpoolController

from scorevi.base.threads import one_thread


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
