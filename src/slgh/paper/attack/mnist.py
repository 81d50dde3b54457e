"""Tables 9 and 10 of the paper, and Figures 1, 16 and 17: the attack on MNIST."""

from __future__ import annotations

from slgh.paper.attack.printed import FIVE, Cell, Figures, Panels, PaperAttack

ATTACK = PaperAttack(
    data="mnist",
    table=9,
    rows={
        "zosgd": Figures("67", "1171 ± 1954", "4.83 ± 4.13", "73.60 ± 102.70"),
        "zoadamm": Figures("71", "261 ± 1068", "4.25 ± 3.36", "67.49 ± 100.25"),
        "zogradopt": Figures("84", "6166 ± 4354", "5.16 ± 2.28", "28.25 ± 65.35"),
        "zoslgh_r": Figures("96", "1537 ± 277", "4.32 ± 2.44", "11.83 ± 37.88"),
        "zoslgh_d": Figures("96", "1342 ± 242", "4.37 ± 2.58", "12.09 ± 38.56"),
    },
    kinds=(*FIVE, "zoslgh_d_shared"),
    panels=(
        Panels(number=1, ids=(32, 45, 95)),
        Panels(number=16, ids=(7, 58, 18, 94, 61, 30, 68, 82)),
        Panels(number=17, ids=(61, 30, 68, 82), column="distortion"),
    ),
    grid_table=10,
    grid_ids=(10, 21, 48, 83),
    grid={
        "zosgd": (Cell("0 (fail.)", "4.1e-7"), Cell("5", "1.194"), Cell("9", "1.183"), Cell("7 (fail.)", "1.8e-4")),
        "zoadamm": (Cell("0 (fail.)", "4.9e-14"), Cell("5", "1.334"), Cell("9", "1.100"), Cell("7 (fail.)", "4.0e-14")),
        "zogradopt": (Cell("2", "3.898"), Cell("5", "1.378"), Cell("9", "1.903"), Cell("9", "6.379")),
        "zoslgh_r": (Cell("2", "3.867"), Cell("5", "1.261"), Cell("9", "1.106"), Cell("9", "6.075")),
        "zoslgh_d": (Cell("2", "4.048"), Cell("5", "1.222"), Cell("9", "1.059"), Cell("9", "5.722")),
    },
)
