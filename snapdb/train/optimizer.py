"""Adam over a model's parameters, without the modules that `torch.optim` imports for torch.compile."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class Adam:
    """Adam (Kingma and Ba, 2015). Its steps equal those of `torch.optim.Adam` bit for bit, because torch computes them.

    The constructor of `torch.optim.Adam` imports `torch._dynamo`, which takes two seconds of CPU time in each process
    and is not needed without torch.compile.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0) -> None:
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._lr = lr
        self._weight_decay = weight_decay
        self._means: list[Tensor] = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in self._parameters]
        """The running means of the gradients, one tensor per parameter."""
        self._squares: list[Tensor] = [torch.zeros_like(mean) for mean in self._means]
        """The running means of the squared gradients."""
        self._steps: list[Tensor] = [torch.tensor(0.0) for _ in self._means]
        """The number of steps per parameter, on the CPU. Parameters without a gradient are not updated."""

    def zero_grad(self) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update each parameter that has a gradient."""
        rows = zip(self._parameters, self._means, self._squares, self._steps, strict=True)
        due = [(p, p.grad, mean, square, step) for p, mean, square, step in rows if p.grad is not None]
        adam(
            [row[0] for row in due],
            [row[1] for row in due],
            [row[2] for row in due],
            [row[3] for row in due],
            [],
            [row[4] for row in due],
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=self._lr,
            weight_decay=self._weight_decay,
            eps=_EPSILON,
            maximize=False,
        )
