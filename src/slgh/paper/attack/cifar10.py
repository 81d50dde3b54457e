"""Tables 2 and 8 of the paper, and Figures 1, 13, 14 and 15: the attack on CIFAR-10."""

from __future__ import annotations

from slgh.paper.attack.printed import FIVE, Cell, Figures, Panels, PaperAttack

ATTACK = PaperAttack(
    data="cifar10",
    table=2,
    rows={
        "zosgd": Figures("88", "835 ± 1238", "0.076 ± 0.085", "27.70 ± 74.80"),
        "zoadamm": Figures("85", "3335 ± 2634", "0.050 ± 0.055", "20.24 ± 62.48"),
        "zogradopt": Figures("65", "6789 ± 1901", "0.249 ± 0.159", "41.45 ± 76.04"),
        "zoslgh_r": Figures("93", "4979 ± 756", "0.246 ± 0.178", "14.26 ± 54.61"),
        "zoslgh_d": Figures("92", "4436 ± 805", "0.150 ± 0.084", "16.49 ± 58.69"),
    },
    kinds=(*FIVE, "zoslgh_d_shared", "zoslgh_r_0.995"),
    panels=(
        Panels(number=1, ids=(56, 34, 102)),
        Panels(number=13, ids=(1, 16, 37, 7, 51, 96, 39, 104, 14, 41)),
        Panels(number=14, ids=(39, 104, 14, 41), column="distortion"),
        Panels(number=15, ids=(8, 66, 105, 89), rows=("zosgd", "zoslgh_r_0.995", "zoslgh_r")),
    ),
    grid_table=8,
    grid_ids=(39, 79, 89, 115),
    grid={
        "zosgd": (
            Cell("dog (fail.)", "6.7e-5"),
            Cell("airplane", "0.154"),
            Cell("truck (fail.)", "5.6e-5"),
            Cell("horse", "4.5e-3"),
        ),
        "zoadamm": (
            Cell("dog (fail.)", "0.226"),
            Cell("airplane", "0.145"),
            Cell("truck (fail.)", "0.131"),
            Cell("horse", "1.6e-3"),
        ),
        "zogradopt": (
            Cell("cat", "0.304"),
            Cell("airplane", "0.254"),
            Cell("truck (fail.)", "1.1e-30"),
            Cell("horse", "0.192"),
        ),
        "zoslgh_r": (
            Cell("cat", "0.540"),
            Cell("airplane", "0.212"),
            Cell("automobile", "0.282"),
            Cell("horse", "0.076"),
        ),
        "zoslgh_d": (
            Cell("cat", "0.359"),
            Cell("airplane", "0.174"),
            Cell("automobile", "0.241"),
            Cell("horse", "0.075"),
        ),
    },
)
