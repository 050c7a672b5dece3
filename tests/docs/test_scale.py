"""The page about scale has the figures of one run, as the program that writes them makes them."""

import json

import pytest

from benchmarks.queue_model import MEASURED
from benchmarks.scale_page import PAGE, page


@pytest.mark.slow
def test_the_page_has_the_figures_of_the_last_run() -> None:
    text = PAGE.read_text()
    assert text.count("<!-- measured: ") == text.count("<!-- end -->") == 4
    assert page(text, json.loads(MEASURED.read_text())) == text
