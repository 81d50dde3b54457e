"""Algorithms 2 and 3 of the paper in plain NumPy, written to be read. The library gives the same numbers."""

import numpy as np


def slgh(F, x, t, *, beta, gamma, T, eta=None, floor=0.0):
    """Run Algorithm 2, deterministic: SLGH_r, or SLGH_d if eta is given. F has grad(x, t) and trace(x, t)."""
    for _ in range(T):
        G_x = F.grad(x, t)
        if eta is None:  # SLGH_r
            t_next = max(gamma * t, floor)
        else:  # SLGH_d
            t_next = max(min(t - eta * F.trace(x, t), gamma * t), floor)
        x, t = x - beta * G_x, t_next
    return x, t


def zoslgh(f, x, t, directions, *, beta, gamma, eta=None, floor=0.0):
    """Run Algorithm 3, deterministic, with M directions per iteration: `directions` (T, M, d) from N(0, I)."""
    d = len(x)
    for u in directions:
        rise = np.array([f(x + t * u_i) for u_i in u]) - f(x)
        g_x = np.mean(rise[:, None] * u, axis=0) / t  # equation (7)
        if eta is None:  # ZOSLGH_r
            t_next = max(gamma * t, floor)
        else:  # ZOSLGH_d, with v = u
            g_t = np.mean((np.sum(u**2, axis=1) - d) * rise) / t**2  # equation (9)
            t_next = max(min(t - eta * g_t, gamma * t), floor)
        x, t = x - beta * g_x, t_next
    return x, t


class Rosenbrock:
    """The smoothed Rosenbrock function as printed in the paper, F(x, y, t), and its derivatives."""

    def value(self, x, t):
        x, y = x
        return (
            100 * x**4 + (-200 * y + 600 * t**2 + 1) * x**2 - 2 * x + 100 * y**2 - 200 * t**2 * y
            + (300 * t**4 + 101 * t**2 + 1)
        )  # fmt: skip

    def grad(self, x, t):
        x, y = x
        return np.array([400 * x**3 + 2 * (-200 * y + 600 * t**2 + 1) * x - 2, -200 * x**2 + 200 * y - 200 * t**2])

    def trace(self, x, t):
        x, y = x
        return 1200 * x**2 - 400 * y + 1200 * t**2 + 202


if __name__ == "__main__":
    F = Rosenbrock()
    x, t = slgh(F, np.array([-3.0, 2.0]), 1.5, beta=1e-4, gamma=0.995, T=20000)
    print(f"SLGH_r  on Rosenbrock: x = {np.round(x, 3)}, f = {F.value(x, 0.0):.4f} (the paper: 0.0327)")

    def hole(x):
        bowl = x[0] ** 2 if x[0] >= 0 else x[0] ** 2 / 50
        return bowl - 150 * 1.1 ** -((x[0] - 10) ** 2 + x[1] ** 2)

    u = np.random.default_rng(1).standard_normal((1000, 10, 2))
    x, t = zoslgh(hole, np.array([15.0, 0.0]), 5.0, u, beta=0.01, gamma=0.999, eta=0.01, floor=1e-3)
    print(f"ZOSLGH_d on the hole:  x = {np.round(x, 3)}, f = {hole(x):.3f} (the paper: -56.670)")
