"""Figures of attacks: their content, range and scale, and errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import slgh
from libraries import other_libraries, to_library
from slgh.attack import AttackResult, attack
from slgh.plotting.images import (
    COLUMNS,
    AttackTrace,
    ComparedImages,
    as_pictures,
    attack_curves,
    attack_images,
    compare,
    curves,
)
from slgh.plotting.style import COLORS, as_bytes

matplotlib.use("Agg")

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def compared(
    n: int, shape: tuple[int, ...], pixels: tuple[float, float] = (0.0, 1.0), **changes: Any
) -> ComparedImages:
    """Return n images with pixels around the middle, all changed by at most a tenth of the range."""
    low, high = pixels
    before = low + (high - low) * RNG.uniform(0.2, 0.8, (n, *shape))
    it = ComparedImages(
        originals=before,
        adversarial=before + (high - low) * RNG.uniform(-0.1, 0.1, before.shape),
        pixels=pixels,
        success=np.ones(n, bool),
        above=[f"{i}: cat" for i in range(n)],
        between=[f"dog {i}" for i in range(n)],
        below=[f"L {i}" for i in range(n)],
    )
    return dataclasses.replace(it, **changes)


def drawn(ax: Any) -> Any:
    (image,) = ax.images
    return image


@pytest.mark.parametrize("pixels", [(0.0, 1.0), (-0.5, 0.5), (0.0, 255.0)])
@pytest.mark.parametrize("shape", [(1, 6, 5), (6, 5, 1), (6, 5)])
def test_grey_images_stand_above_their_signed_difference(shape: tuple[int, ...], pixels: tuple[float, float]) -> None:
    it = compared(2, shape, pixels)
    figure = compare(it, title="MNIST")
    assert len(figure.axes) == 6
    scaled = [as_pictures(images, pixels) for images in (it.originals, it.adversarial)]
    scale = np.abs(scaled[1] - scaled[0]).max()
    for i in range(2):
        top, middle, bottom = figure.axes[3 * i : 3 * i + 3]
        assert_allclose(drawn(top).get_array(), scaled[0][i])
        assert_allclose(drawn(middle).get_array(), scaled[1][i])
        assert drawn(top).get_clim() == drawn(middle).get_clim() == (0, 1), "black is the lowest possible pixel"
        assert_allclose(drawn(bottom).get_array(), (scaled[1] - scaled[0])[i])
        assert drawn(bottom).get_clim() == (-scale, scale), "one scale for all, around 0"
        assert drawn(bottom).get_cmap().name == "RdBu_r"
        assert (top.get_title(), middle.get_title(), bottom.get_xlabel()) == (f"{i}: cat", f"dog {i}", f"L {i}")
    assert [ax.get_ylabel() for ax in figure.axes[:3]] == ["original", "adversarial", "difference"]
    assert figure.get_suptitle() == "MNIST"
    assert f"±{scale:.2g} of the pixels' range" in figure.get_supxlabel()


@pytest.mark.parametrize("shape", [(3, 6, 5), (6, 5, 3)])
def test_the_difference_of_colored_images_is_drawn_around_gray(shape: tuple[int, ...]) -> None:
    it = compared(1, shape)
    change = (as_pictures(it.adversarial, it.pixels) - as_pictures(it.originals, it.pixels))[0]
    figure = compare(it)
    top, _, bottom = figure.axes
    assert drawn(top).get_array().shape == (6, 5, 3)
    assert_allclose(drawn(bottom).get_array(), 0.5 + change / (2 * np.abs(change).max()))
    assert "gray is no change" in figure.get_supxlabel()


def test_failures_are_greyed_and_say_why() -> None:
    success = np.array([True, False])
    why = "misclassified before, not attacked"
    it = compared(2, (1, 6, 5), success=success, between=["dog", why])
    figure = compare(it)
    _, middle, bottom = figure.axes[3:]
    shown = drawn(middle).get_array()
    assert_allclose(1 - shown, 0.25 * (1 - it.originals[1, 0]))
    assert middle.texts[0].get_text().replace("\n", " ") == why
    assert middle.get_title() == ""
    assert not bottom.images
    only = np.abs(it.adversarial[0] - it.originals[0]).max()
    assert drawn(figure.axes[2]).get_clim() == (-only, only), "failures do not count in the scale"


def test_without_any_success_there_is_no_scale() -> None:
    it = compared(1, (1, 6, 5), success=np.zeros(1, bool))
    figure = compare(it)
    assert figure.get_supxlabel() == ""
    assert as_bytes(figure, "png")


def test_an_image_that_needed_no_change_is_drawn() -> None:
    it = compared(1, (1, 6, 5))
    figure = compare(dataclasses.replace(it, adversarial=it.originals))
    assert_array_equal(drawn(figure.axes[2]).get_array(), 0)


def test_many_images_go_below_each_other() -> None:
    figure = compare(compared(COLUMNS + 3, (1, 3, 3)))
    tops = figure.axes[::3]
    places = [place for ax in tops if (place := ax.get_subplotspec())]
    assert [place.colspan.start for place in places] == [*range(COLUMNS), 0, 1, 2]
    assert [place.rowspan.start for place in places] == [0] * COLUMNS + [3] * 3
    assert figure.get_figheight() > compare(compared(2, (1, 3, 3))).get_figheight()


@pytest.mark.parametrize("shape", [(5, 4), (5,), (2, 2, 4, 4), (2, 1, 3, 4, 4)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"`images` must be pictures, \(N, C, H, W\)"):
        as_pictures(np.zeros(shape), (0, 1))


def test_pixels_outside_the_range_are_cut_off() -> None:
    assert_array_equal(as_pictures(np.array([[[-1.0, 0.0, 9.0]]]), (-0.5, 0.5)), [[[0, 0.5, 1]]])


# Progress of an attack


def course(B: int, R: int = 6) -> AttackTrace:
    """Image i succeeds at query 10 (i + 1), except for the last one. All end at query 60."""
    queries = 10 * np.arange(1, R + 1)
    first = np.where(np.arange(B) < B - 1, 10 * (np.arange(B) % R + 1), -1)
    distortion = np.outer(queries, np.arange(1, B + 1)).astype(float)
    return AttackTrace(
        queries=queries,
        distortion=distortion,
        margin=20 - distortion / 10,
        ends=np.full(B, 60),
        first=first,
        labels=[f"image {i}" for i in range(B)],
    )


def test_each_image_has_a_line_and_a_dot_at_its_first_success() -> None:
    it = course(3)
    figure = curves(it, title="the course")
    left, right = figure.axes
    lines, dots = [[line for line in left.lines if (line.get_marker() == "o") is dot] for dot in (False, True)]
    for i, line in enumerate(lines):
        assert_array_equal(line.get_xdata(), it.queries)
        assert_array_equal(line.get_ydata(), it.distortion[:, i])
    assert [(np.asarray(dot.get_xdata())[0], np.asarray(dot.get_ydata())[0]) for dot in dots] == [(10, 10), (20, 40)]
    assert len({line.get_color() for line in lines}) == 3
    assert_array_equal(right.lines[0].get_ydata(), it.margin[:, 0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["image 0", "image 1", "image 2"]
    assert figure.get_suptitle() == "the course"


def test_a_line_ends_where_its_image_was_left_alone() -> None:
    it = dataclasses.replace(course(2), ends=np.array([20, 60]))
    assert_array_equal(curves(it).axes[0].lines[0].get_xdata(), [10, 20])


def test_images_that_were_not_attacked_have_no_line() -> None:
    it = course(2)
    it.distortion[:, 0] = it.margin[:, 0] = np.nan
    assert [text.get_text() for text in curves(it).legends[0].get_texts()] == ["image 1"]


def test_of_many_images_those_that_were_never_fooled_are_gray() -> None:
    figure = curves(course(12))
    assert not figure.legends
    colors = [line.get_color() for line in figure.axes[0].lines if line.get_marker() != "o"]
    assert colors == [COLORS[0]] * 11 + ["0.6"]


# Results of the library


def fool(images: Any, **options: Any) -> AttackResult:
    """Classify images by their brighter half, left or right. The second image has a wrong label."""

    def halves(a: Any) -> Any:
        left, right = a[..., :2].sum((1, 2, 3)), a[..., 2:].sum((1, 2, 3))
        return 5 * (left - right)[:, None] * np.array([1.0, -1.0])

    parameters: dict[str, Any] = {
        "method": "zoslgh_r",
        "t1": 0.05,
        "step": 2e-4,
        "max_iter": 200,
        "seed": 0,
        "samples": 5,
    }
    return attack(halves, images, [0, 1, 0], **parameters | options)


IMAGES = np.concatenate([RNG.uniform(0.5, 0.6, (3, 1, 4, 2)), RNG.uniform(0.4, 0.5, (3, 1, 4, 2))], axis=-1)


def test_a_result_is_drawn_with_ids_classes_and_outcomes() -> None:
    found = fool(IMAGES)
    figure = attack_images(found, IMAGES, ids=[7, 8, 9], classes=["left", "right"], title="halves")
    assert [ax.get_title() for ax in figure.axes[::3]] == ["7: left", "8: right", "9: left"]
    assert [ax.get_title() for ax in figure.axes[1::3]] == ["→ right", "", "→ right"]
    assert "not attacked" in figure.axes[4].texts[0].get_text().replace("\n", " ")
    assert figure.axes[2].get_xlabel() == f"$L_2$ {found.distance[0]:.3g}"
    assert_allclose(drawn(figure.axes[1]).get_array(), found.images[0, 0])
    few = attack_images(found, IMAGES, most=2, title="halves")
    assert len(few.axes) == 6
    assert few.get_suptitle() == "halves (the first 2 of 3)"


def test_labels_fit_the_norm() -> None:
    found = dataclasses.replace(fool(IMAGES), norm="linf")
    assert attack_images(found, IMAGES).axes[2].get_xlabel() == f"$L_\\infty$ {found.distance[0]:.3g}"
    assert attack_curves(found).axes[0].get_ylabel() == "$L_\\infty$ distortion"
    assert attack_curves(fool(IMAGES)).axes[0].get_ylabel() == "squared $L_2$ distortion"


def test_other_originals_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`originals` must be the images that were attacked, \(3, 1, 4, 4\)"):
        attack_images(fool(IMAGES), IMAGES[:2])


def test_plot_draws_the_course_of_an_attack() -> None:
    import matplotlib.pyplot as plt

    found = fool(IMAGES, stop="end")
    figure = slgh.plot(found, title="an attack")
    assert plt.get_fignums() == [], "a notebook would show it twice"
    lines = [line for line in figure.axes[0].lines if line.get_marker() != "o"]
    assert len(lines) == 2
    assert_array_equal(lines[0].get_ydata(), found.history["distortion"][:, 0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0: 0 → 1", "2: 0 → 1"]
    dots = [line for line in figure.axes[1].lines if line.get_marker() == "o"]
    assert all(np.asarray(dot.get_ydata())[0] <= 0 for dot in dots), "the model is fooled there"


def test_without_a_history_there_are_no_curves() -> None:
    for found in (fool(IMAGES, history=0), attack(lambda a: a, np.array([[0.4, 0.6]]), [0])):
        with pytest.raises(ValueError, match="`found` must have a history"):
            attack_curves(found)


@other_libraries
def test_images_of_every_library_are_drawn(library: str) -> None:
    found = fool(IMAGES)
    figure = attack_images(
        dataclasses.replace(found, images=to_library(found.images, library)), to_library(IMAGES, library)
    )
    assert_allclose(drawn(figure.axes[1]).get_array(), found.images[0, 0], rtol=1e-6)
