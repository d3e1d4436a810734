import numpy as np
import torch


# %% 02.2 LayerNorm's backward in one line
def layer_norm_dx(g, x_hat, inverse_std):
    """Return the gradient of x, (B, L, H)."""
    return None  # your lines here


# %% 02.3 Two chunks, one variance
def merge_moments(n_a, mean_a, var_a, n_b, mean_b, var_b):
    """Return n, the mean and the biased variance of both chunks together."""
    return None  # your lines here


# %% 02.4 Break the one-pass variance
def one_pass(x):
    return np.mean(x * x) - np.mean(x) ** 2


def failing_input():
    """Return the array."""
    return None  # your lines here


# %% 02.5 Which norm was it?
def which_norm(x, y):
    """Return four numbers, 1 or 0: over B, over L, over H, a mean is subtracted."""
    return None  # your lines here


# %% 02.6 A LayerNorm for somebody else's model
# %% 04.4 Is this LayerNorm?
def layer_norm(x, weight, bias, eps):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, ddof=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


# %% 03.2 Running statistics behind a mask
def masked_running_stats(x, mask, running_mean, running_var, momentum):
    """Return the new running_mean and running_var, (H,) each, as new arrays."""
    return None  # your lines here


# %% 03.3 The second step fails
class RunningScale(torch.nn.Module):
    def __init__(self, features, alpha=0.9, eps=1e-5):
        super().__init__()
        self.alpha, self.eps = alpha, eps
        self.register_buffer("running_mean_square", torch.ones(features))

    def forward(self, x):  # (B, L, H)
        y = x / torch.sqrt(self.running_mean_square + self.eps)
        if self.training:
            batch = (x**2).mean((0, 1))
            old = self.running_mean_square
            self.running_mean_square = self.alpha * old + (1 - self.alpha) * batch
        return y


# %% 03.4 BatchNorm on sequences
def batch_norm(x, weight, bias, eps):
    mean = x.mean(axis=0)
    variance = x.var(axis=0)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


# %% 03.6 What lies between batches
def between_share(x, batch_size):
    """Return the shares, (H,)."""
    return None  # your lines here


# %% 03.7 Two devices
def synced_dx(g_1, x_hat_1, g_2, x_hat_2, inverse_std):
    """Return dx_1 (B_1, C) and dx_2 (B_2, C). inverse_std is (C,)."""
    return None  # your lines here


# %% 04.2 How fast do the weights turn?
def turning(weights, gradients, rate):
    """Return the angles and the predictions, (steps, units) each."""
    return None  # your lines here


# %% 04.3 Fold BatchNorm into the layer before it
def fold_batch_norm(w, b, weight, bias, running_mean, running_var, eps):
    """Return the new weights (units, inputs) and the new bias (units,)."""
    return None  # your lines here


# %% 05.2 By the largest entry
def max_norm_backward(grad_y, x):
    """Return the gradient of x, of x's shape."""
    return None  # your lines here


# %% 05.3 When does it matter?
def where_it_matters(eps, share):
    """Return psi, a number."""
    return None  # your lines here


# %% 05.4 NaN after some hundred steps
def rms_norm(x, weight, eps):
    return x * (1 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True)) + eps) * weight


# %% 05.5 A layer that puts out zeros
def rms_norm_half(x, weight, eps):
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + np.float16(eps)) * weight


# %% 05.7 How much is the mean?
def mean_share(x):
    """Return the shares and the cosines, (N,) each."""
    return None  # your lines here


# %% 06.2 PN-V's backward
def power_norm_v_backward(grad_y, x, weight, eps):
    """Return grad_x (B, L, H) and grad_weight (H,)."""
    return None  # your lines here


# %% 06.3 One step of PowerNorm
def power_norm_step(x, psi_squared, alpha, eps):
    psi_squared = alpha * psi_squared + (1 - alpha) * (x**2).mean(axis=(0, 1))
    return x / np.sqrt(psi_squared + eps), psi_squared


# %% 06.5 The other half of a memory
def half_memory_backward(grad_y, x, weight, variance, eps):
    """Return grad_x (B, L, H) and grad_weight (H,)."""
    return None  # your lines here


# %% 06.6 How much does ψ² tremble?
def trembling(x, batch_size):
    """Return one number per feature, (H,)."""
    return None  # your lines here


# %% 07.2 What grows, and what is left
def streams(x, matrices):
    """Return the sizes of Pre-LN's stream and the factors of Post-LN's, (steps,) each."""
    return None  # your lines here


# %% 07.3 Add and norm, backward
def add_norm_backward(grad_h, grad_y, h, weight, eps):
    """Return grad_x and grad_branch of h's shape (..., H), and grad_weight (H,)."""
    return None  # your lines here


# %% 07.4 A Pre-LN block
def pre_ln_block(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    """Return the stream after the layer, (B, L, H)."""
    return None  # your lines here


# %% 07.5 A DeepNorm step
def deep_norm_step(x, sublayer, alpha, weight, bias, eps):
    h = x + alpha * sublayer(x)
    mean, variance = h.mean(axis=-1, keepdims=True), h.var(axis=-1, keepdims=True)
    return (h - mean) / np.sqrt(variance + eps) * weight + bias


# %% 08.2 Attention with QK-norm
def qk_norm_attention(q, k, v, weight_q, weight_k, eps):
    """Return the output, (B, heads, L, d)."""
    return None  # your lines here


# %% 08.3 Queries that nearly vanish
def normalize_queries(q, weight, heads, eps):
    mean_square = (q**2).mean(axis=-1, keepdims=True)
    return q / np.sqrt(mean_square + eps) * np.tile(weight, heads)


# %% 08.5 The largest score with γ
def largest_score(weight_q, weight_k):
    """Return a number."""
    return None  # your lines here


# %% 08.6 Switched off
def left_by_the_norm(x, eps):
    """Return what is left, (N,)."""
    return None  # your lines here
