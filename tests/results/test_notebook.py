"""What a notebook shows: compact views in HTML, tried in a real one."""

import re

import numpy as np
import pytest
from conftest import gsm_fit

import scorevi
from scorevi.base.html import card, list_html, table_html
from scorevi.trust.verdict import Reason, Verdict

CELLS = [
    "import scorevi\nfit = scorevi.fit(scorevi.examples.eight_schools(), seed=0)",
    "fit",
    "fit.check(modes=False)",
    "fit",
    "fit.summary",
    "fit.plot()",
]


@pytest.mark.slow
def test_in_a_real_notebook(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    [bar] = outputs[0]
    assert re.search(r"fitting <progress .*</progress> [\d,]+ gradients", bar.data["text/html"])
    before, verdict, after, table = (outputs[k][0].data["text/html"] for k in (1, 2, 3, 4))
    assert "Not checked yet" in before
    assert "k-hat" in verdict
    assert "Not checked yet" not in after
    assert after.count("<tr>") == 11
    assert table.count("<tr>") == 11
    assert "image/png" in outputs[5][0].data
    assert outputs[1][0].data["text/plain"].startswith("<Fit of 10 dimensions")


def test_names_and_reasons_are_escaped():
    evil = "<script>alert(1)</script>"
    fit = gsm_fit(scorevi.from_function(np.negative, 2, names=[evil, "b"]), max_gradients=100)
    fit.notes = (evil,)
    for shown in (
        fit._repr_html_(),
        fit.summary._repr_html_(),
        Verdict((Reason("warn", evil, evil),))._repr_html_(),
        card(evil, evil, list_html([evil]), table_html([evil], [[evil]])),
    ):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown


def test_a_fit_that_failed_is_shown_as_that():
    with pytest.warns(scorevi.FitWarning):
        fit = gsm_fit(scorevi.from_function(lambda x: x * np.nan, 2, batched=True))
    shown = fit._repr_html_()
    assert "Not fitted. bad-scores" in shown
    assert "<table" not in shown


def test_a_long_table_is_cut_in_a_notebook():
    fit = gsm_fit(scorevi.Gaussian.standard(50), max_gradients=100)
    assert "… and 40 more" in fit._repr_html_()
    assert "… and 30 more" in fit.summary._repr_html_()
