"""Captured graph of benchmarks.models:small_ranking, 140 operators."""

import torch


def make_inputs():
    """Numbers in place of inputs and parameters, the same every time."""
    torch.manual_seed(0)
    return (
        torch.randn((4, 96)),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((8, 96)).requires_grad_(),
        torch.randn((8,)).requires_grad_(),
        torch.randn((9, 96)).requires_grad_(),
        torch.randn((9,)).requires_grad_(),
        torch.randn((10, 96)).requires_grad_(),
        torch.randn((10,)).requires_grad_(),
        torch.randn((11, 96)).requires_grad_(),
        torch.randn((11,)).requires_grad_(),
        torch.randn((12, 96)).requires_grad_(),
        torch.randn((12,)).requires_grad_(),
        torch.randn((13, 96)).requires_grad_(),
        torch.randn((13,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((16, 16)).requires_grad_(),
        torch.randn((16,)).requires_grad_(),
        torch.randn((1, 16, 16)).requires_grad_(),
        torch.randn((1, 687)).requires_grad_(),
        torch.randn((1,)).requires_grad_(),
    )


def program(
    x0,
    x1,
    x2,
    x3,
    x4,
    x5,
    x6,
    x7,
    x8,
    x9,
    x10,
    x11,
    x12,
    x13,
    x14,
    x15,
    x16,
    x17,
    x18,
    x19,
    x20,
    x21,
    x22,
    x23,
    x24,
    x25,
    x26,
    x27,
    x28,
    x29,
    x30,
    x31,
    x32,
    x33,
    x34,
    x35,
    x36,
    x37,
    x38,
    x39,
    x40,
    x41,
    x42,
    x43,
    x44,
    x45,
    x46,
    x47,
    x48,
    x49,
    x50,
    x51,
):
    """The graph, operator by operator."""
    v0 = torch.split(x0, 96, dim=1)
    v1 = v0[0]
    v2 = torch.split(v1, 16, dim=1)
    v3 = v2[0]
    v4 = v2[1]
    v5 = v2[2]
    v6 = v2[3]
    v7 = v2[4]
    v8 = v2[5]
    v9 = torch.nan_to_num(v3)
    v10 = torch.clamp(v9, -3.0, 3.0)
    v11 = torch.nan_to_num(v4)
    v12 = torch.clamp(v11, -3.0, 3.0)
    v13 = torch.nan_to_num(v5)
    v14 = torch.clamp(v13, -3.0, 3.0)
    v15 = torch.nan_to_num(v6)
    v16 = torch.clamp(v15, -3.0, 3.0)
    v17 = torch.nan_to_num(v7)
    v18 = torch.clamp(v17, -3.0, 3.0)
    v19 = torch.nan_to_num(v8)
    v20 = torch.clamp(v19, -3.0, 3.0)
    v21 = torch.nn.functional.layer_norm(v10, (16,), x1, x2, 1e-05)
    v22 = torch.nn.functional.linear(v21, x3, x4)
    v23 = torch.tanh(v22)
    v24 = torch.nn.functional.layer_norm(v12, (16,), x5, x6, 1e-05)
    v25 = torch.nn.functional.linear(v24, x7, x8)
    v26 = torch.tanh(v25)
    v27 = torch.nn.functional.layer_norm(v14, (16,), x9, x10, 1e-05)
    v28 = torch.nn.functional.linear(v27, x11, x12)
    v29 = torch.tanh(v28)
    v30 = torch.nn.functional.layer_norm(v16, (16,), x13, x14, 1e-05)
    v31 = torch.nn.functional.linear(v30, x15, x16)
    v32 = torch.tanh(v31)
    v33 = torch.nn.functional.layer_norm(v18, (16,), x17, x18, 1e-05)
    v34 = torch.nn.functional.linear(v33, x19, x20)
    v35 = torch.tanh(v34)
    v36 = torch.nn.functional.layer_norm(v20, (16,), x21, x22, 1e-05)
    v37 = torch.nn.functional.linear(v36, x23, x24)
    v38 = torch.tanh(v37)
    v39 = torch.relu(v23)
    v40 = torch.sigmoid(v39)
    v41 = torch.relu(v26)
    v42 = torch.sigmoid(v41)
    v43 = torch.relu(v29)
    v44 = torch.sigmoid(v43)
    v45 = torch.relu(v32)
    v46 = torch.sigmoid(v45)
    v47 = torch.relu(v35)
    v48 = torch.sigmoid(v47)
    v49 = torch.relu(v38)
    v50 = torch.sigmoid(v49)
    v51 = v23 * v40
    v52 = v26 * v42
    v53 = v29 * v44
    v54 = v32 * v46
    v55 = v35 * v48
    v56 = v38 * v50
    v57 = torch.cat([v51, v52, v53, v54, v55, v56], dim=1)
    v58 = torch.nn.functional.linear(v57, x25, x26)
    v59 = torch.relu(v58)
    v60 = torch.nn.functional.linear(v57, x27, x28)
    v61 = torch.relu(v60)
    v62 = torch.nn.functional.linear(v57, x29, x30)
    v63 = torch.relu(v62)
    v64 = torch.nn.functional.linear(v57, x31, x32)
    v65 = torch.relu(v64)
    v66 = torch.nn.functional.linear(v57, x33, x34)
    v67 = torch.relu(v66)
    v68 = torch.nn.functional.linear(v57, x35, x36)
    v69 = torch.relu(v68)
    v70 = torch.split(v57, 16, dim=1)
    v71 = v70[0]
    v72 = v70[1]
    v73 = v70[2]
    v74 = v70[3]
    v75 = v70[4]
    v76 = v23.detach()
    v77 = torch.nn.functional.linear(v76, x37, x38)
    v78 = v26.detach()
    v79 = torch.nn.functional.linear(v78, x39, x40)
    v80 = v29.detach()
    v81 = torch.nn.functional.linear(v80, x41, x42)
    v82 = v32.detach()
    v83 = torch.nn.functional.linear(v82, x43, x44)
    v84 = v35.detach()
    v85 = torch.nn.functional.linear(v84, x45, x46)
    v86 = v38.detach()
    v87 = torch.nn.functional.linear(v86, x47, x48)
    v88 = torch.split(v57, 16, dim=1)
    v89 = v88[1]
    v90 = v88[2]
    v91 = v88[3]
    v92 = v88[4]
    v93 = torch.cat((v89, v90, v91, v92), dim=1)
    v94 = v71.exp()
    v95 = torch.cat([v72, v73, v74, v75, v94], dim=1)
    v96 = v95.narrow(1, 0, 64)
    v97 = v57.view(-1, 6, 16)
    v98 = torch.unbind(v97, dim=1)
    v99 = v98[0]
    v100 = v98[1]
    v101 = v98[2]
    v102 = v98[3]
    v103 = v98[4]
    v104 = v99.cos()
    v105 = torch.stack([v100, v101, v102, v103, v104], dim=1)
    v106 = v105.flatten(1)
    v107 = v106.narrow(1, 0, 64)
    v108 = v99.sin()
    v109 = torch.cat([v100, v101, v102, v103, v108], dim=1)
    v110 = v109.narrow(1, 0, 64)
    v111 = v71.sin()
    v112 = torch.stack([v72, v73, v74, v75, v111])
    v113 = v112.narrow(0, 0, 4)
    v114 = v113.transpose(0, 1)
    v115 = v114.flatten(1)
    v116 = v57.t()
    v117 = torch.split(v116, 16)
    v118 = v117[0]
    v119 = v117[1]
    v120 = v117[2]
    v121 = v117[3]
    v122 = v117[4]
    v123 = v117[5]
    v124 = v118.reshape(-1)
    v125 = v119.reshape(-1)
    v126 = v120.reshape(-1)
    v127 = v121.reshape(-1)
    v128 = v122.reshape(-1)
    v129 = v123.reshape(-1)
    v130 = torch.stack([v124, v125, v126, v127, v128, v129])
    v131 = v130.sum(0)
    v132 = v131.view(16, -1)
    v133 = v132.t()
    v134 = v57.view(-1, 6, 16)
    v135 = x49.expand(4, 6, 16, 16)
    v136 = torch.einsum("bnw,bnwv->bnv", v134, v135)
    v137 = v136.flatten(1)
    v138 = torch.cat([v57, v93, v96, v59, v61, v63, v65, v67, v69, v77, v79, v81, v83, v85, v87, v107, v110, v115, v133, v137], dim=1)
    v139 = torch.nn.functional.linear(v138, x50, x51)
    return (v139,)
