"""The attack inside the libraries that people attack with: foolbox, ART and torchattacks.

Each lives in the module of its library's name, so that none of them is needed for the others: `SLGHAttack` in
`slgh.attack.adapters.foolbox` and in `slgh.attack.adapters.art`, `SLGH` in `slgh.attack.adapters.torchattacks`.
"""
