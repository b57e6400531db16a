// Package fedssp trains private recommenders from sufficient statistics. A rating of user i for
// item j is explained as μ + b_i + b_j + <u_i, v_j>. Users send sums. The server solves for the
// items from the noisy sums, all at once. The package follows
//
//   - Krichene, Jain, Song, Sundararajan, Thakurta, Zhang, "Multi-task differential
//     privacy under distribution skew" (ICML 2023): DPALS and AdaDPALS;
//   - Curmei, Krichene, Zhang, Sundararajan, "Private matrix factorization with
//     public item features" (RecSys 2023): DP-CMF;
//   - Krichene, Mayoraz, Rendle, Song, Thakurta, Zhang, "Private learning with
//     public features" (AISTATS 2024): sufficient statistics perturbation, SSP.
//
// fedssp/divergence.md says where the package departs from the papers and why.
//
// A run is a list of stages ([stage.All]). Each stage has one file with its releases, their bounds,
// the client's computation and the server's use of the sum. The last stage is a solver's, again with
// one file each. An algorithm is an entry of a table (algorithms.go): the solvers that it may use, and
// what differs otherwise. Its keys are the keys of stages and solvers. Another package can bring
// solvers and register algorithms with [Register]: package lab/ssp brings gradient steps and convex
// losses, which the papers compare with.
//
// The rooms, from the bottom: kernel (settings, model, bytes), user (the client's side), serving (the
// server's side), settings (keys and defaults), solver, stage, and this package, which registers the
// algorithms and joins them with data. encoder and posterior are numerics that know none of this.
//
// An alternating step is one secure sum. Each client is one user ([user.User], a client.Trainer). It
// solves for its own u_i in closed form against the broadcast items, and contributes statistics.
// Only their noisy sum over users is seen. The server's side is [serving.Strategy], a server.Durable,
// which turns sums into item embeddings. [stage.Steps] lists the releases of each round:
//
//	phase       releases                    per user, and its L2 bound
//	prepare     counts                      1 for each of at most θ_c items          √θ_c
//	            mean                        Σ(y-mid)/(k·half), min(n,k)/k            √2
//	bias        bias                        w_j·clip(y-μ-b_i)                        Γ
//	            weight-counts               w_j                                      1
//	refine      bias                        w_j·clip(residual of b_j, b_i, t_i)      0.85Γ
//	            weight-counts               w_j                                      1
//	popularity  weight-counts               w_j                                      1
//	statistics  gramian (one Gramian)       s·svec(u uᵀ)                             Γ_u²
//	            gramians (one per item)     s·w_j·svec(u uᵀ)                         Γ_u²
//	            moments                     s·w_j·clip(y-μ-b_i-b_j)·u                Γ_yΓ_u
//	            second-moments, first-moments, scales: see solver/variational.go
//
// kernel.Params.NormBias and NormItems replace the bounds of bias, and of moments or gradients, if they
// are smaller. A user whose contribution would be longer takes smaller weights w_j, or a smaller s,
// which is 1 otherwise.
//
// With kernel.Params.TopItems all releases except counts cover only the items that are trained on, which
// counts choose. With ByWeights only statistics do, and the weight-counts of all items choose
// (kernel/choice.go).
//
// # Privacy
//
// The unit is a user and the relation zero-out: the user's record is replaced by the empty record,
// whose contribution is zero. So the sensitivity of a release is the largest norm of one user's
// contribution. All bounds rest on two facts that the client ensures whatever the server
// broadcasts:
//
//   - Σ_j w_j² <= 1: see user/weights.go. The server may choose the counts that shape the
//     weights, but the weights are normalised last.
//   - ‖u‖ <= Γ_u and finite: see user/user.go. The server may choose the items that u is
//     fitted to, but u is clipped last.
//
// With svec (off-diagonals times √2) the norm of a packed matrix is its Frobenius norm, so ‖svec(u
// uᵀ)‖ = ‖u‖² <= Γ_u². Rows of different items stand at different coordinates. So the norms of
// gramians, moments and bias are √(Σ w_j² x_j²) with |x_j| at most the bound
// of one row, hence at most that bound.
//
// The client also measures the norms of bias and moments, and scales them down to
// NormBias or NormItems (user.Restrain). The factor is at most 1, so no other bound
// grows. Refined sums of biases
// ([kernel.BiasParams]) are measured and scaled down to the bound that their release declares, 0.85
// of the first, whatever residuals the server's biases leave. Their weight-counts are the same w_j
// once more.
//
// A broadcast that is not finite or absurdly large is neutralised with the client, coordinate by
// coordinate, and never answered by an error that would depend on the user's ratings.
package fedssp
