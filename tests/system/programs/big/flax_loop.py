"""A JAX loop with optax and tensorboardX."""
import jax
import jax.numpy as jnp
import optax
from tensorboardX import SummaryWriter

key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (128, 4))
y = x.sum(1)
params = jnp.zeros(4)
optimizer = optax.adam(0.05)
state = optimizer.init(params)
writer = SummaryWriter("runs/jax")
value_and_grad = jax.jit(jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2)))
for step in range(300):
    loss, gradient = value_and_grad(params)
    updates, state = optimizer.update(gradient, state)
    params = optax.apply_updates(params, updates)
    writer.add_scalar("train/loss", loss, step)
    writer.add_scalar("train/grad_norm", optax.global_norm(gradient), step)
writer.close()
