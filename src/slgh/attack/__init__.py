"""The black-box adversarial attack."""

from slgh.attack.front_door import attack
from slgh.attack.outcome import AttackResult, Outcome

__all__ = ["AttackResult", "Outcome", "attack"]
