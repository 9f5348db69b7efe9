"""Captured graph of benchmarks.models:small_autoint, 285 operators."""

import torch


def make_inputs():
    """Numbers in place of inputs and parameters, the same every time."""
    torch.manual_seed(0)
    return (
        torch.rand((4, 39)) * 999,
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 8)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((1000, 1)).requires_grad_(),
        torch.randn((13, 1)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((8, 8)).requires_grad_(),
        torch.randn((256, 221)).requires_grad_(),
        torch.randn((256,)).requires_grad_(),
        torch.randn((128, 256)).requires_grad_(),
        torch.randn((128,)).requires_grad_(),
        torch.randn((1, 336)).requires_grad_(),
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
    x52,
    x53,
    x54,
    x55,
    x56,
    x57,
    x58,
    x59,
    x60,
    x61,
    x62,
    x63,
    x64,
    x65,
    x66,
    x67,
    x68,
    x69,
    x70,
    x71,
):
    """The graph, operator by operator."""
    v0 = x0[:, 0:1]
    v1 = v0.long()
    v2 = torch.nn.functional.embedding(v1, x1, None, None, 2.0, False, False)
    v3 = x0[:, 1:2]
    v4 = v3.long()
    v5 = torch.nn.functional.embedding(v4, x2, None, None, 2.0, False, False)
    v6 = x0[:, 2:3]
    v7 = v6.long()
    v8 = torch.nn.functional.embedding(v7, x3, None, None, 2.0, False, False)
    v9 = x0[:, 3:4]
    v10 = v9.long()
    v11 = torch.nn.functional.embedding(v10, x4, None, None, 2.0, False, False)
    v12 = x0[:, 4:5]
    v13 = v12.long()
    v14 = torch.nn.functional.embedding(v13, x5, None, None, 2.0, False, False)
    v15 = x0[:, 5:6]
    v16 = v15.long()
    v17 = torch.nn.functional.embedding(v16, x6, None, None, 2.0, False, False)
    v18 = x0[:, 6:7]
    v19 = v18.long()
    v20 = torch.nn.functional.embedding(v19, x7, None, None, 2.0, False, False)
    v21 = x0[:, 7:8]
    v22 = v21.long()
    v23 = torch.nn.functional.embedding(v22, x8, None, None, 2.0, False, False)
    v24 = x0[:, 8:9]
    v25 = v24.long()
    v26 = torch.nn.functional.embedding(v25, x9, None, None, 2.0, False, False)
    v27 = x0[:, 9:10]
    v28 = v27.long()
    v29 = torch.nn.functional.embedding(v28, x10, None, None, 2.0, False, False)
    v30 = x0[:, 10:11]
    v31 = v30.long()
    v32 = torch.nn.functional.embedding(v31, x11, None, None, 2.0, False, False)
    v33 = x0[:, 11:12]
    v34 = v33.long()
    v35 = torch.nn.functional.embedding(v34, x12, None, None, 2.0, False, False)
    v36 = x0[:, 12:13]
    v37 = v36.long()
    v38 = torch.nn.functional.embedding(v37, x13, None, None, 2.0, False, False)
    v39 = x0[:, 13:14]
    v40 = v39.long()
    v41 = torch.nn.functional.embedding(v40, x14, None, None, 2.0, False, False)
    v42 = x0[:, 14:15]
    v43 = v42.long()
    v44 = torch.nn.functional.embedding(v43, x15, None, None, 2.0, False, False)
    v45 = x0[:, 15:16]
    v46 = v45.long()
    v47 = torch.nn.functional.embedding(v46, x16, None, None, 2.0, False, False)
    v48 = x0[:, 16:17]
    v49 = v48.long()
    v50 = torch.nn.functional.embedding(v49, x17, None, None, 2.0, False, False)
    v51 = x0[:, 17:18]
    v52 = v51.long()
    v53 = torch.nn.functional.embedding(v52, x18, None, None, 2.0, False, False)
    v54 = x0[:, 18:19]
    v55 = v54.long()
    v56 = torch.nn.functional.embedding(v55, x19, None, None, 2.0, False, False)
    v57 = x0[:, 19:20]
    v58 = v57.long()
    v59 = torch.nn.functional.embedding(v58, x20, None, None, 2.0, False, False)
    v60 = x0[:, 20:21]
    v61 = v60.long()
    v62 = torch.nn.functional.embedding(v61, x21, None, None, 2.0, False, False)
    v63 = x0[:, 21:22]
    v64 = v63.long()
    v65 = torch.nn.functional.embedding(v64, x22, None, None, 2.0, False, False)
    v66 = x0[:, 22:23]
    v67 = v66.long()
    v68 = torch.nn.functional.embedding(v67, x23, None, None, 2.0, False, False)
    v69 = x0[:, 23:24]
    v70 = v69.long()
    v71 = torch.nn.functional.embedding(v70, x24, None, None, 2.0, False, False)
    v72 = x0[:, 24:25]
    v73 = v72.long()
    v74 = torch.nn.functional.embedding(v73, x25, None, None, 2.0, False, False)
    v75 = x0[:, 25:26]
    v76 = v75.long()
    v77 = torch.nn.functional.embedding(v76, x26, None, None, 2.0, False, False)
    v78 = x0[:, 26:27]
    v79 = x0[:, 27:28]
    v80 = x0[:, 28:29]
    v81 = x0[:, 29:30]
    v82 = x0[:, 30:31]
    v83 = x0[:, 31:32]
    v84 = x0[:, 32:33]
    v85 = x0[:, 33:34]
    v86 = x0[:, 34:35]
    v87 = x0[:, 35:36]
    v88 = x0[:, 36:37]
    v89 = x0[:, 37:38]
    v90 = x0[:, 38:39]
    v91 = x0[:, 0:1]
    v92 = v91.long()
    v93 = torch.nn.functional.embedding(v92, x27, None, None, 2.0, False, False)
    v94 = x0[:, 1:2]
    v95 = v94.long()
    v96 = torch.nn.functional.embedding(v95, x28, None, None, 2.0, False, False)
    v97 = x0[:, 2:3]
    v98 = v97.long()
    v99 = torch.nn.functional.embedding(v98, x29, None, None, 2.0, False, False)
    v100 = x0[:, 3:4]
    v101 = v100.long()
    v102 = torch.nn.functional.embedding(v101, x30, None, None, 2.0, False, False)
    v103 = x0[:, 4:5]
    v104 = v103.long()
    v105 = torch.nn.functional.embedding(v104, x31, None, None, 2.0, False, False)
    v106 = x0[:, 5:6]
    v107 = v106.long()
    v108 = torch.nn.functional.embedding(v107, x32, None, None, 2.0, False, False)
    v109 = x0[:, 6:7]
    v110 = v109.long()
    v111 = torch.nn.functional.embedding(v110, x33, None, None, 2.0, False, False)
    v112 = x0[:, 7:8]
    v113 = v112.long()
    v114 = torch.nn.functional.embedding(v113, x34, None, None, 2.0, False, False)
    v115 = x0[:, 8:9]
    v116 = v115.long()
    v117 = torch.nn.functional.embedding(v116, x35, None, None, 2.0, False, False)
    v118 = x0[:, 9:10]
    v119 = v118.long()
    v120 = torch.nn.functional.embedding(v119, x36, None, None, 2.0, False, False)
    v121 = x0[:, 10:11]
    v122 = v121.long()
    v123 = torch.nn.functional.embedding(v122, x37, None, None, 2.0, False, False)
    v124 = x0[:, 11:12]
    v125 = v124.long()
    v126 = torch.nn.functional.embedding(v125, x38, None, None, 2.0, False, False)
    v127 = x0[:, 12:13]
    v128 = v127.long()
    v129 = torch.nn.functional.embedding(v128, x39, None, None, 2.0, False, False)
    v130 = x0[:, 13:14]
    v131 = v130.long()
    v132 = torch.nn.functional.embedding(v131, x40, None, None, 2.0, False, False)
    v133 = x0[:, 14:15]
    v134 = v133.long()
    v135 = torch.nn.functional.embedding(v134, x41, None, None, 2.0, False, False)
    v136 = x0[:, 15:16]
    v137 = v136.long()
    v138 = torch.nn.functional.embedding(v137, x42, None, None, 2.0, False, False)
    v139 = x0[:, 16:17]
    v140 = v139.long()
    v141 = torch.nn.functional.embedding(v140, x43, None, None, 2.0, False, False)
    v142 = x0[:, 17:18]
    v143 = v142.long()
    v144 = torch.nn.functional.embedding(v143, x44, None, None, 2.0, False, False)
    v145 = x0[:, 18:19]
    v146 = v145.long()
    v147 = torch.nn.functional.embedding(v146, x45, None, None, 2.0, False, False)
    v148 = x0[:, 19:20]
    v149 = v148.long()
    v150 = torch.nn.functional.embedding(v149, x46, None, None, 2.0, False, False)
    v151 = x0[:, 20:21]
    v152 = v151.long()
    v153 = torch.nn.functional.embedding(v152, x47, None, None, 2.0, False, False)
    v154 = x0[:, 21:22]
    v155 = v154.long()
    v156 = torch.nn.functional.embedding(v155, x48, None, None, 2.0, False, False)
    v157 = x0[:, 22:23]
    v158 = v157.long()
    v159 = torch.nn.functional.embedding(v158, x49, None, None, 2.0, False, False)
    v160 = x0[:, 23:24]
    v161 = v160.long()
    v162 = torch.nn.functional.embedding(v161, x50, None, None, 2.0, False, False)
    v163 = x0[:, 24:25]
    v164 = v163.long()
    v165 = torch.nn.functional.embedding(v164, x51, None, None, 2.0, False, False)
    v166 = x0[:, 25:26]
    v167 = v166.long()
    v168 = torch.nn.functional.embedding(v167, x52, None, None, 2.0, False, False)
    v169 = x0[:, 26:27]
    v170 = x0[:, 27:28]
    v171 = x0[:, 28:29]
    v172 = x0[:, 29:30]
    v173 = x0[:, 30:31]
    v174 = x0[:, 31:32]
    v175 = x0[:, 32:33]
    v176 = x0[:, 33:34]
    v177 = x0[:, 34:35]
    v178 = x0[:, 35:36]
    v179 = x0[:, 36:37]
    v180 = x0[:, 37:38]
    v181 = x0[:, 38:39]
    v182 = x0.new_zeros((4, 1))
    v183 = torch.cat(
        [
            v93,
            v96,
            v99,
            v102,
            v105,
            v108,
            v111,
            v114,
            v117,
            v120,
            v123,
            v126,
            v129,
            v132,
            v135,
            v138,
            v141,
            v144,
            v147,
            v150,
            v153,
            v156,
            v159,
            v162,
            v165,
            v168,
        ],
        dim=-1,
    )
    v184 = torch.sum(v183, dim=-1, keepdim=False)
    v182 += v184
    v185 = v182
    v186 = torch.cat([v169, v170, v171, v172, v173, v174, v175, v176, v177, v178, v179, v180, v181], dim=-1)
    v187 = v186.matmul(x53)
    v185 += v187
    v188 = v185
    v189 = torch.cat(
        [v2, v5, v8, v11, v14, v17, v20, v23, v26, v29, v32, v35, v38, v41, v44, v47, v50, v53, v56, v59, v62, v65, v68, v71, v74, v77], dim=1
    )
    v190 = torch.tensordot(v189, x54, dims=([-1], [0]))
    v191 = torch.tensordot(v189, x55, dims=([-1], [0]))
    v192 = torch.tensordot(v189, x56, dims=([-1], [0]))
    v193 = torch.split(v190, 4, dim=2)
    v194 = v193[0]
    v195 = v193[1]
    v196 = torch.stack((v194, v195))
    v197 = torch.split(v191, 4, dim=2)
    v198 = v197[0]
    v199 = v197[1]
    v200 = torch.stack((v198, v199))
    v201 = torch.split(v192, 4, dim=2)
    v202 = v201[0]
    v203 = v201[1]
    v204 = torch.stack((v202, v203))
    v205 = torch.einsum("bnik,bnjk->bnij", v196, v200)
    v206 = torch.nn.functional.softmax(v205, dim=-1)
    v207 = torch.matmul(v206, v204)
    v208 = torch.split(v207, 1)
    v209 = v208[0]
    v210 = v208[1]
    v211 = torch.cat((v209, v210), dim=-1)
    v212 = torch.squeeze(v211, dim=0)
    v213 = torch.tensordot(v189, x57, dims=([-1], [0]))
    v212 += v213
    v214 = v212
    v215 = torch.nn.functional.relu(v214)
    v216 = torch.tensordot(v215, x58, dims=([-1], [0]))
    v217 = torch.tensordot(v215, x59, dims=([-1], [0]))
    v218 = torch.tensordot(v215, x60, dims=([-1], [0]))
    v219 = torch.split(v216, 4, dim=2)
    v220 = v219[0]
    v221 = v219[1]
    v222 = torch.stack((v220, v221))
    v223 = torch.split(v217, 4, dim=2)
    v224 = v223[0]
    v225 = v223[1]
    v226 = torch.stack((v224, v225))
    v227 = torch.split(v218, 4, dim=2)
    v228 = v227[0]
    v229 = v227[1]
    v230 = torch.stack((v228, v229))
    v231 = torch.einsum("bnik,bnjk->bnij", v222, v226)
    v232 = torch.nn.functional.softmax(v231, dim=-1)
    v233 = torch.matmul(v232, v230)
    v234 = torch.split(v233, 1)
    v235 = v234[0]
    v236 = v234[1]
    v237 = torch.cat((v235, v236), dim=-1)
    v238 = torch.squeeze(v237, dim=0)
    v239 = torch.tensordot(v215, x61, dims=([-1], [0]))
    v238 += v239
    v240 = v238
    v241 = torch.nn.functional.relu(v240)
    v242 = torch.tensordot(v241, x62, dims=([-1], [0]))
    v243 = torch.tensordot(v241, x63, dims=([-1], [0]))
    v244 = torch.tensordot(v241, x64, dims=([-1], [0]))
    v245 = torch.split(v242, 4, dim=2)
    v246 = v245[0]
    v247 = v245[1]
    v248 = torch.stack((v246, v247))
    v249 = torch.split(v243, 4, dim=2)
    v250 = v249[0]
    v251 = v249[1]
    v252 = torch.stack((v250, v251))
    v253 = torch.split(v244, 4, dim=2)
    v254 = v253[0]
    v255 = v253[1]
    v256 = torch.stack((v254, v255))
    v257 = torch.einsum("bnik,bnjk->bnij", v248, v252)
    v258 = torch.nn.functional.softmax(v257, dim=-1)
    v259 = torch.matmul(v258, v256)
    v260 = torch.split(v259, 1)
    v261 = v260[0]
    v262 = v260[1]
    v263 = torch.cat((v261, v262), dim=-1)
    v264 = torch.squeeze(v263, dim=0)
    v265 = torch.tensordot(v241, x65, dims=([-1], [0]))
    v264 += v265
    v266 = v264
    v267 = torch.nn.functional.relu(v266)
    v268 = torch.flatten(v267, start_dim=1)
    v269 = torch.cat(
        [v2, v5, v8, v11, v14, v17, v20, v23, v26, v29, v32, v35, v38, v41, v44, v47, v50, v53, v56, v59, v62, v65, v68, v71, v74, v77], dim=-1
    )
    v270 = torch.flatten(v269, start_dim=1)
    v271 = torch.cat([v78, v79, v80, v81, v82, v83, v84, v85, v86, v87, v88, v89, v90], dim=-1)
    v272 = torch.flatten(v271, start_dim=1)
    v273 = torch.cat([v270, v272], dim=-1)
    v274 = torch.nn.functional.linear(v273, x66, x67)
    v275 = torch.nn.functional.relu(v274, inplace=True)
    v276 = torch.nn.functional.dropout(v275, 0, True, False)
    v277 = torch.nn.functional.linear(v276, x68, x69)
    v278 = torch.nn.functional.relu(v277, inplace=True)
    v279 = torch.nn.functional.dropout(v278, 0, True, False)
    v280 = torch.cat([v268, v279], dim=-1)
    v281 = torch.nn.functional.linear(v280, x70, None)
    v188 += v281
    v282 = v188
    v282 += x71
    v283 = v282
    v284 = torch.sigmoid(v283)
    return (
        v284,
        v206,
        v232,
        v258,
    )
