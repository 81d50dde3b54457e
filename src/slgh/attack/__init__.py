"""The black-box adversarial attack."""

from slgh.attack.api import attack
from slgh.attack.result import AttackResult, Outcome

__all__ = ["AttackResult", "Outcome", "attack"]
