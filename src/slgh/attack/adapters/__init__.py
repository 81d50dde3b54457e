"""The attack as a class of the attack libraries foolbox, ART and torchattacks.

Each adapter is in the module named after its library, so that none of the others has to be installed:
`slgh.attack.adapters.foolbox.SLGHFoolboxAttack`, `slgh.attack.adapters.art.SLGHArtAttack` and
`slgh.attack.adapters.torchattacks.SLGH`.
"""
