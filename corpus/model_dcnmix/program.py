"""Captured graph of benchmarks.models:small_dcnmix, 361 operators."""

import torch


def make_inputs():
    """Numbers in place of inputs and parameters, the same every time."""
    torch.manual_seed(0)
    return (
        torch.rand((4, 39)) * 999,
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
        torch.randn((128, 221)).requires_grad_(),
        torch.randn((128,)).requires_grad_(),
        torch.randn((128, 128)).requires_grad_(),
        torch.randn((128,)).requires_grad_(),
        torch.randn((1, 221)).requires_grad_(),
        torch.randn((2, 4, 221, 32)).requires_grad_(),
        torch.randn((2, 4, 32, 32)).requires_grad_(),
        torch.randn((2, 4, 221, 32)).requires_grad_(),
        torch.randn((2, 221, 1)).requires_grad_(),
        torch.randn((1, 221)).requires_grad_(),
        torch.randn((1, 221)).requires_grad_(),
        torch.randn((1, 221)).requires_grad_(),
        torch.randn((1, 349)).requires_grad_(),
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
    v91 = x0.new_zeros((4, 1))
    v92 = torch.cat(
        [v2, v5, v8, v11, v14, v17, v20, v23, v26, v29, v32, v35, v38, v41, v44, v47, v50, v53, v56, v59, v62, v65, v68, v71, v74, v77], dim=-1
    )
    v93 = torch.sum(v92, dim=-1, keepdim=False)
    v91 += v93
    v94 = v91
    v95 = torch.cat([v78, v79, v80, v81, v82, v83, v84, v85, v86, v87, v88, v89, v90], dim=-1)
    v96 = v95.matmul(x27)
    v94 += v96
    v97 = v94
    v98 = x0[:, 0:1]
    v99 = v98.long()
    v100 = torch.nn.functional.embedding(v99, x28, None, None, 2.0, False, False)
    v101 = x0[:, 1:2]
    v102 = v101.long()
    v103 = torch.nn.functional.embedding(v102, x29, None, None, 2.0, False, False)
    v104 = x0[:, 2:3]
    v105 = v104.long()
    v106 = torch.nn.functional.embedding(v105, x30, None, None, 2.0, False, False)
    v107 = x0[:, 3:4]
    v108 = v107.long()
    v109 = torch.nn.functional.embedding(v108, x31, None, None, 2.0, False, False)
    v110 = x0[:, 4:5]
    v111 = v110.long()
    v112 = torch.nn.functional.embedding(v111, x32, None, None, 2.0, False, False)
    v113 = x0[:, 5:6]
    v114 = v113.long()
    v115 = torch.nn.functional.embedding(v114, x33, None, None, 2.0, False, False)
    v116 = x0[:, 6:7]
    v117 = v116.long()
    v118 = torch.nn.functional.embedding(v117, x34, None, None, 2.0, False, False)
    v119 = x0[:, 7:8]
    v120 = v119.long()
    v121 = torch.nn.functional.embedding(v120, x35, None, None, 2.0, False, False)
    v122 = x0[:, 8:9]
    v123 = v122.long()
    v124 = torch.nn.functional.embedding(v123, x36, None, None, 2.0, False, False)
    v125 = x0[:, 9:10]
    v126 = v125.long()
    v127 = torch.nn.functional.embedding(v126, x37, None, None, 2.0, False, False)
    v128 = x0[:, 10:11]
    v129 = v128.long()
    v130 = torch.nn.functional.embedding(v129, x38, None, None, 2.0, False, False)
    v131 = x0[:, 11:12]
    v132 = v131.long()
    v133 = torch.nn.functional.embedding(v132, x39, None, None, 2.0, False, False)
    v134 = x0[:, 12:13]
    v135 = v134.long()
    v136 = torch.nn.functional.embedding(v135, x40, None, None, 2.0, False, False)
    v137 = x0[:, 13:14]
    v138 = v137.long()
    v139 = torch.nn.functional.embedding(v138, x41, None, None, 2.0, False, False)
    v140 = x0[:, 14:15]
    v141 = v140.long()
    v142 = torch.nn.functional.embedding(v141, x42, None, None, 2.0, False, False)
    v143 = x0[:, 15:16]
    v144 = v143.long()
    v145 = torch.nn.functional.embedding(v144, x43, None, None, 2.0, False, False)
    v146 = x0[:, 16:17]
    v147 = v146.long()
    v148 = torch.nn.functional.embedding(v147, x44, None, None, 2.0, False, False)
    v149 = x0[:, 17:18]
    v150 = v149.long()
    v151 = torch.nn.functional.embedding(v150, x45, None, None, 2.0, False, False)
    v152 = x0[:, 18:19]
    v153 = v152.long()
    v154 = torch.nn.functional.embedding(v153, x46, None, None, 2.0, False, False)
    v155 = x0[:, 19:20]
    v156 = v155.long()
    v157 = torch.nn.functional.embedding(v156, x47, None, None, 2.0, False, False)
    v158 = x0[:, 20:21]
    v159 = v158.long()
    v160 = torch.nn.functional.embedding(v159, x48, None, None, 2.0, False, False)
    v161 = x0[:, 21:22]
    v162 = v161.long()
    v163 = torch.nn.functional.embedding(v162, x49, None, None, 2.0, False, False)
    v164 = x0[:, 22:23]
    v165 = v164.long()
    v166 = torch.nn.functional.embedding(v165, x50, None, None, 2.0, False, False)
    v167 = x0[:, 23:24]
    v168 = v167.long()
    v169 = torch.nn.functional.embedding(v168, x51, None, None, 2.0, False, False)
    v170 = x0[:, 24:25]
    v171 = v170.long()
    v172 = torch.nn.functional.embedding(v171, x52, None, None, 2.0, False, False)
    v173 = x0[:, 25:26]
    v174 = v173.long()
    v175 = torch.nn.functional.embedding(v174, x53, None, None, 2.0, False, False)
    v176 = x0[:, 26:27]
    v177 = x0[:, 27:28]
    v178 = x0[:, 28:29]
    v179 = x0[:, 29:30]
    v180 = x0[:, 30:31]
    v181 = x0[:, 31:32]
    v182 = x0[:, 32:33]
    v183 = x0[:, 33:34]
    v184 = x0[:, 34:35]
    v185 = x0[:, 35:36]
    v186 = x0[:, 36:37]
    v187 = x0[:, 37:38]
    v188 = x0[:, 38:39]
    v189 = torch.cat(
        [
            v100,
            v103,
            v106,
            v109,
            v112,
            v115,
            v118,
            v121,
            v124,
            v127,
            v130,
            v133,
            v136,
            v139,
            v142,
            v145,
            v148,
            v151,
            v154,
            v157,
            v160,
            v163,
            v166,
            v169,
            v172,
            v175,
        ],
        dim=-1,
    )
    v190 = torch.flatten(v189, start_dim=1)
    v191 = torch.cat([v176, v177, v178, v179, v180, v181, v182, v183, v184, v185, v186, v187, v188], dim=-1)
    v192 = torch.flatten(v191, start_dim=1)
    v193 = torch.cat([v190, v192], dim=-1)
    v194 = torch.nn.functional.linear(v193, x54, x55)
    v195 = torch.nn.functional.relu(v194, inplace=True)
    v196 = torch.nn.functional.dropout(v195, 0, True, False)
    v197 = torch.nn.functional.linear(v196, x56, x57)
    v198 = torch.nn.functional.relu(v197, inplace=True)
    v199 = torch.nn.functional.dropout(v198, 0, True, False)
    v200 = v193.unsqueeze(2)
    v201 = v200.squeeze(2)
    v202 = torch.nn.functional.linear(v201, x58, None)
    v203 = x59[0]
    v204 = v203[0]
    v205 = v204.t()
    v206 = torch.matmul(v205, v200)
    v207 = torch.tanh(v206)
    v208 = x60[0]
    v209 = v208[0]
    v210 = torch.matmul(v209, v207)
    v211 = torch.tanh(v210)
    v212 = x61[0]
    v213 = v212[0]
    v214 = torch.matmul(v213, v211)
    v215 = x62[0]
    v216 = v214 + v215
    v217 = v200 * v216
    v218 = v217.squeeze(2)
    v219 = v200.squeeze(2)
    v220 = torch.nn.functional.linear(v219, x63, None)
    v221 = x59[0]
    v222 = v221[1]
    v223 = v222.t()
    v224 = torch.matmul(v223, v200)
    v225 = torch.tanh(v224)
    v226 = x60[0]
    v227 = v226[1]
    v228 = torch.matmul(v227, v225)
    v229 = torch.tanh(v228)
    v230 = x61[0]
    v231 = v230[1]
    v232 = torch.matmul(v231, v229)
    v233 = x62[0]
    v234 = v232 + v233
    v235 = v200 * v234
    v236 = v235.squeeze(2)
    v237 = v200.squeeze(2)
    v238 = torch.nn.functional.linear(v237, x64, None)
    v239 = x59[0]
    v240 = v239[2]
    v241 = v240.t()
    v242 = torch.matmul(v241, v200)
    v243 = torch.tanh(v242)
    v244 = x60[0]
    v245 = v244[2]
    v246 = torch.matmul(v245, v243)
    v247 = torch.tanh(v246)
    v248 = x61[0]
    v249 = v248[2]
    v250 = torch.matmul(v249, v247)
    v251 = x62[0]
    v252 = v250 + v251
    v253 = v200 * v252
    v254 = v253.squeeze(2)
    v255 = v200.squeeze(2)
    v256 = torch.nn.functional.linear(v255, x65, None)
    v257 = x59[0]
    v258 = v257[3]
    v259 = v258.t()
    v260 = torch.matmul(v259, v200)
    v261 = torch.tanh(v260)
    v262 = x60[0]
    v263 = v262[3]
    v264 = torch.matmul(v263, v261)
    v265 = torch.tanh(v264)
    v266 = x61[0]
    v267 = v266[3]
    v268 = torch.matmul(v267, v265)
    v269 = x62[0]
    v270 = v268 + v269
    v271 = v200 * v270
    v272 = v271.squeeze(2)
    v273 = torch.stack([v218, v236, v254, v272], 2)
    v274 = torch.stack([v202, v220, v238, v256], 1)
    v275 = v274.softmax(1)
    v276 = torch.matmul(v273, v275)
    v277 = v276 + v200
    v278 = v277.squeeze(2)
    v279 = torch.nn.functional.linear(v278, x58, None)
    v280 = x59[1]
    v281 = v280[0]
    v282 = v281.t()
    v283 = torch.matmul(v282, v277)
    v284 = torch.tanh(v283)
    v285 = x60[1]
    v286 = v285[0]
    v287 = torch.matmul(v286, v284)
    v288 = torch.tanh(v287)
    v289 = x61[1]
    v290 = v289[0]
    v291 = torch.matmul(v290, v288)
    v292 = x62[1]
    v293 = v291 + v292
    v294 = v200 * v293
    v295 = v294.squeeze(2)
    v296 = v277.squeeze(2)
    v297 = torch.nn.functional.linear(v296, x63, None)
    v298 = x59[1]
    v299 = v298[1]
    v300 = v299.t()
    v301 = torch.matmul(v300, v277)
    v302 = torch.tanh(v301)
    v303 = x60[1]
    v304 = v303[1]
    v305 = torch.matmul(v304, v302)
    v306 = torch.tanh(v305)
    v307 = x61[1]
    v308 = v307[1]
    v309 = torch.matmul(v308, v306)
    v310 = x62[1]
    v311 = v309 + v310
    v312 = v200 * v311
    v313 = v312.squeeze(2)
    v314 = v277.squeeze(2)
    v315 = torch.nn.functional.linear(v314, x64, None)
    v316 = x59[1]
    v317 = v316[2]
    v318 = v317.t()
    v319 = torch.matmul(v318, v277)
    v320 = torch.tanh(v319)
    v321 = x60[1]
    v322 = v321[2]
    v323 = torch.matmul(v322, v320)
    v324 = torch.tanh(v323)
    v325 = x61[1]
    v326 = v325[2]
    v327 = torch.matmul(v326, v324)
    v328 = x62[1]
    v329 = v327 + v328
    v330 = v200 * v329
    v331 = v330.squeeze(2)
    v332 = v277.squeeze(2)
    v333 = torch.nn.functional.linear(v332, x65, None)
    v334 = x59[1]
    v335 = v334[3]
    v336 = v335.t()
    v337 = torch.matmul(v336, v277)
    v338 = torch.tanh(v337)
    v339 = x60[1]
    v340 = v339[3]
    v341 = torch.matmul(v340, v338)
    v342 = torch.tanh(v341)
    v343 = x61[1]
    v344 = v343[3]
    v345 = torch.matmul(v344, v342)
    v346 = x62[1]
    v347 = v345 + v346
    v348 = v200 * v347
    v349 = v348.squeeze(2)
    v350 = torch.stack([v295, v313, v331, v349], 2)
    v351 = torch.stack([v279, v297, v315, v333], 1)
    v352 = v351.softmax(1)
    v353 = torch.matmul(v350, v352)
    v354 = v353 + v277
    v355 = v354.squeeze()
    v356 = torch.cat((v355, v199), dim=-1)
    v357 = torch.nn.functional.linear(v356, x66, None)
    v97 += v357
    v358 = v97
    v358 += x67
    v359 = v358
    v360 = torch.sigmoid(v359)
    return (v360,)
