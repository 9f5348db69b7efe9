"""Captured graph of benchmarks.models:small_branches, 48 operators."""

import torch


def make_inputs():
    """Numbers in place of inputs and parameters, the same every time."""
    torch.manual_seed(0)
    return (
        torch.randn((4, 64, 64), dtype=torch.bfloat16),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64, 64), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64, 64), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64, 64), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64, 64), dtype=torch.bfloat16).requires_grad_(),
        torch.randn((64,), dtype=torch.bfloat16).requires_grad_(),
    )


def program(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16):
    """The graph, operator by operator."""
    v0 = torch.unbind(x0)
    v1 = v0[0]
    v2 = v0[1]
    v3 = v0[2]
    v4 = v0[3]
    v5 = torch.split(v1, [16, 48], dim=1)
    v6 = v5[0]
    v7 = v5[1]
    v8 = torch.split(v7, [16, 32], dim=1)
    v9 = v8[0]
    v10 = v8[1]
    v11 = torch.cat([v6, v9, v10], dim=1)
    v12 = torch.nn.functional.layer_norm(v11, (64,), x1, x2, 1e-05)
    v13 = torch.nn.functional.linear(v12, x3, x4)
    v14 = torch.split(v2, [16, 48], dim=1)
    v15 = v14[0]
    v16 = v14[1]
    v17 = torch.split(v16, [16, 32], dim=1)
    v18 = v17[0]
    v19 = v17[1]
    v20 = torch.cat([v15, v18, v19], dim=1)
    v21 = torch.nn.functional.layer_norm(v20, (64,), x5, x6, 1e-05)
    v22 = torch.nn.functional.linear(v21, x7, x8)
    v23 = torch.split(v3, [16, 48], dim=1)
    v24 = v23[0]
    v25 = v23[1]
    v26 = torch.split(v25, [16, 32], dim=1)
    v27 = v26[0]
    v28 = v26[1]
    v29 = torch.cat([v24, v27, v28], dim=1)
    v30 = torch.nn.functional.layer_norm(v29, (64,), x9, x10, 1e-05)
    v31 = torch.nn.functional.linear(v30, x11, x12)
    v32 = torch.split(v4, [16, 48], dim=1)
    v33 = v32[0]
    v34 = v32[1]
    v35 = torch.split(v34, [16, 32], dim=1)
    v36 = v35[0]
    v37 = v35[1]
    v38 = torch.cat([v33, v36, v37], dim=1)
    v39 = torch.nn.functional.layer_norm(v38, (64,), x13, x14, 1e-05)
    v40 = torch.nn.functional.linear(v39, x15, x16)
    v41 = torch.stack([v13, v22, v31, v40])
    v42 = torch.unbind(v41, dim=0)
    v43 = v42[0]
    v44 = v42[1]
    v45 = v42[2]
    v46 = v42[3]
    v47 = torch.cat((v43, v44, v45, v46), dim=1)
    return (v47,)
