"""Pages look right in a browser: at three widths, in both themes, without a word from the console or to the network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import BROWSER, Chromium

from bertcli.lifecycle.report import report

WIDTHS = (400, 800, 1400)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    if BROWSER is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def pages(home: Path, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pretrained, out = home / "runs/pretrain-tiny", tmp_path_factory.mktemp("pages") / "several.html"
    report([str(hostile), str(pretrained)], out=str(out))
    return [hostile / "report.html", pretrained / "report.html", out]


def test_nothing_overflows_and_the_console_is_silent(browser: Chromium, pages: list[Path]) -> None:
    for page in pages:
        for width in WIDTHS:
            for dark in (False, True):
                browser.open(page, width, dark)
                assert browser.value("document.documentElement.scrollWidth <= innerWidth"), (page, width)
                assert browser.complaints == []
                paper = browser.value("getComputedStyle(document.body).backgroundColor")
                assert (paper != "rgb(255, 255, 255)") is dark
            assert browser.picture().startswith(b"\x89PNG")


def test_the_errors_are_filtered_by_a_word(browser: Chromium, pages: list[Path]) -> None:
    browser.open(pages[0], 800)
    count = "[...document.querySelectorAll('.examples li')].filter(each => !each.hidden).length"
    total = browser.value(count)
    assert total > 0
    first = browser.value("document.querySelector('.examples dd').textContent")
    for typed, wanted in ((first, 1), ("not in any of them", 0), ("", total)):
        browser.value(
            f"const box{wanted} = document.querySelector('[data-filters]'); box{wanted}.value = {typed!r};"
            f"box{wanted}.dispatchEvent(new Event('input'))"
        )
        shown = browser.value(count)
        assert shown == wanted if wanted != 1 else shown >= 1
        assert browser.value("document.querySelector('.filter output').textContent") == f"{shown} shown"


def test_only_the_script_of_the_page_runs(browser: Chromium, pages: list[Path]) -> None:
    browser.open(pages[0], 800)
    browser.value(
        "const more = document.createElement('script'); more.textContent = 'window.ran = 1'; document.body.append(more)"
    )
    assert browser.value("window.ran") is None


def test_a_chart_is_as_wide_as_its_column(browser: Chromium, pages: list[Path]) -> None:
    browser.open(pages[1], 400)
    assert browser.value("document.querySelector('.chart').getBoundingClientRect().width > 300")
    assert browser.value("document.querySelectorAll('.chart .dots title').length") > 4
