"""Formulas of docstrings in the terminal."""

from __future__ import annotations

import pytest

from slgh.cli.unicode_math import to_unicode

FORMULAS = {
    r"t_{k+1} = \max(\gamma\, t_k,\ \epsilon')": "tₖ₊₁ = max(γ tₖ, ε')",
    r"\frac1M \sum_i \nabla_x \bar F(x, t; \xi_i)": "1/M Σᵢ ∇ₓ F̄(x, t; ξᵢ)",
    r"\frac{\partial F}{\partial t}": "∂F/∂t",
    r"\frac{d}{M t} \sum_{j=1}^N a_j": "d/(M t) Σⱼ₌₁ᴺ aⱼ",
    r"\frac{2 \rho}{M} r": "2 ρ/M · r",
    r"\frac{a + b}{2t}\, \frac{u_i}{w}": "(a + b)/(2t) · uᵢ/w",
    r"\frac{(a - b)(c + d)}{t^2} + 1": "(a − b)(c + d)/t² + 1",
    r"\frac{m / n}{\sqrt{v_k / (1-\beta_2^k)} + \delta}": "(m / n)/(√(vₖ / (1−β₂ᵏ)) + δ)",
    r"\sqrt\nu \le \sqrt{d}\; g_k / |g_k|": "√ν ≤ √d gₖ / |gₖ|",
    r"t_1\, (t_{end} / t_1)^{s^p}": "t₁ (t_end / t₁)^(sᵖ)",
    r"u_i^\top u_i, \quad \Delta_i^{-1}": "uᵢᵀ uᵢ\nΔᵢ⁻¹",
    r"\operatorname{tr}\operatorname{Hess}_x F": "tr Hessₓ F",
    r"\#\{|\Delta_j| \le \epsilon_0\} = N_0 \text{ else } t": "#{|Δⱼ| ≤ ε₀} = N₀ else t",
    r"\hat\nabla f_{\xi_i}(\tilde x; u_i)": "∇̂f_ξᵢ(x̃; uᵢ)",
    r"g \quad\text{or}\quad h,": "g or h",
    r"\unknown{x}": r"\unknownx",
}


@pytest.mark.parametrize("latex", FORMULAS)
def test_a_formula_reads_as_on_paper(latex: str) -> None:
    assert to_unicode(latex) == FORMULAS[latex]
