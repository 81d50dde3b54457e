"""Learn to swing up a pendulum: the weights of a policy with six features, from the costs of episodes alone.

Needs Gymnasium: pip install "slgh[gymnasium]". Run it with: python examples/pendulum_policy.py
"""

import sys

import gymnasium
import numpy as np

import slgh

D = 6
"""Number of weights."""

TRAINING, TEST = range(6), range(100, 120)
"""Seeds of the first states of episodes."""


def torque(weights, observation):
    """Return the action of the policy: a bounded linear function of six features."""
    cos, sin, velocity = observation / [1.0, 1.0, 8.0]
    features = [cos, sin, velocity, sin * cos, velocity * cos, velocity**3]
    return 2 * np.tanh(5 * np.dot(weights, features))[None]


def cost(weights, seeds=TRAINING):
    """Return the mean cost of episodes that begin at the same states for all weights."""
    env = gymnasium.make("Pendulum-v1")
    total = 0.0
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(torque(weights, observation))
            total -= float(reward)
            ended = terminated or truncated
    env.close()
    return total / len(seeds)


def train(max_evals, **options):
    """Return the result of a run that begins at the policy without any torque."""
    return slgh.minimize(cost, np.zeros(D), t1=1.0, max_evals=max_evals, seed=0, **options)


if __name__ == "__main__":
    max_evals = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    result = train(max_evals, workers=2)
    print(f"Test cost without a policy: {cost(np.zeros(D), TEST):.0f}")
    print(f"Test cost after {result.nfev} evaluations: {cost(result.x, TEST):.0f}")
