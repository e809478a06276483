"""The forces of a law as JavaScript, for the script of particles (particles.js).

A law becomes a list of objects, one for each force. Each has its name, pairs, constant,
balance and against, as a `dynamics.forces.Force` has them, and a function
add(q, first, end, particles, field): it adds what the pair sum q and those from `first`
to before `end` do to each other to the field (pair, axis), and returns the sum of the
magnitudes. The strength stands in it, so that a browser compiles both together."""

import json

from dynamics.expressions import javascript, power_product
from dynamics.forces import Force
from dynamics.settings import ParticleSettings

_RADIAL = """\
(q, first, end, {sums}, field) => {
  const qx = sums[2 * q], qy = sums[2 * q + 1]
  let onX = 0, onY = 0, total = 0
  for (let p = first; p < end; p++) {
    const x = sums[2 * p] - qx, y = sums[2 * p + 1] - qy
    const square = x * x + y * y
    if (square > TINY) {
      FACTOR_AND_SIZE
      field[2 * p] += x * factor
      field[2 * p + 1] += y * factor
      onX -= x * factor
      onY -= y * factor
      total += size
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return total
}"""
"""A force along the difference of two pair sums, which is opposite and equal."""

_ANGULAR = """\
(q, first, end, {units}, field) => {
  const strength = STRENGTH
  const qx = units[2 * q], qy = units[2 * q + 1]
  if (qx === 0 && qy === 0) return 0
  let onX = 0, onY = 0, size = 0
  for (let p = first; p < end; p++) {
    const x = units[2 * p], y = units[2 * p + 1], c = x * qx + y * qy
    const value = strength(c > 1 ? 1 : c < -1 ? -1 : c)
    if (value !== 0 && (x !== 0 || y !== 0)) {
      field[2 * p] += value * qx
      field[2 * p + 1] += value * qy
      onX += value * x
      onY += value * y
      size += Math.abs(value)
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return size
}"""
"""A force along the direction of the other pair sum."""


def law_as_javascript(settings: ParticleSettings) -> str:
    """The forces of a law as a list in JavaScript."""
    return f"[{', '.join(_force(force, settings) for force in settings.forces)}]"


def _force(force: Force, settings: ParticleSettings) -> str:
    values = {
        "name": force.name,
        "pairs": force.pairs,
        "constant": force.constant,
        "balance": settings.balance_of(force),
        "against": force.against,
    }
    if force.is_radial:
        function = _RADIAL.replace("FACTOR_AND_SIZE", _factor_and_size(force))
    else:
        function = _ANGULAR.replace("STRENGTH", javascript(force.expression))
    return f"{{...{json.dumps(values)}, add: {function}}}"


def _factor_and_size(force: Force) -> str:
    """JavaScript of the strength over r, and of its magnitude, at a `square` distance.
    A power of r is a product as in the kernels, with their bits."""
    monomial = force.expression.monomial()
    if monomial is None:
        strength = javascript(force.expression)
        factor = f"({strength})(r) / r"
        return f"const r = Math.sqrt(square), factor = {factor}, size = Math.abs(factor * r)"
    coefficient, power = monomial
    product = power_product(power)
    base = "square" if product.of_square else "Math.sqrt(square)"
    if product.of_inverse:
        base = f"1 / {base}"
    sizes = ["base"] * product.sizes
    if product.of_square:
        sizes = ["Math.sqrt(base)", *sizes]
    factor = " * ".join([*["base"] * product.factors, f"{coefficient}"])
    size = " * ".join([*sizes, f"{abs(coefficient)}"])
    return f"const base = {base}, factor = {factor}, size = {size}"


def law_script() -> str:
    """A script with the law of CA."""
    law = law_as_javascript(ParticleSettings())
    return f"{{\nconst TINY = 1e-280\nglobalThis.ParticleLaw = {law}\n}}\n"
