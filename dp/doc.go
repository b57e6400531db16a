// Package dp is differential privacy's bookkeeping: what a release costs, how
// much noise a budget asks for, and what may honestly be stated at the end.
// Samplers are in the sub-package noise; nothing here draws a random number.
//
// # Use
//
// An [Event] is one or more identical releases of one mechanism: [Gaussian],
// [SubsampledGaussian], [Skellam], [SubsampledSkellam]. A [Problem] is a list
// of events, a δ and an [Accountant]; its Epsilon method answers with the
// smallest ε that the accountant shows, and names the accountant really used.
// [NoiseMultiplier], [SkellamVariance] and [Calibrate] go the other way: the
// least noise that meets a budget. A [Ledger] holds one client's budget and
// refuses what would overspend it. A [Statement] is the sentence a run prints.
//
// Which accountant: [Exact] for Gaussians that see all data; [PLD] for Gaussians
// over Poisson samples, alone or together with others; [RDP] for Skellam, and for
// what mixes it with the rest; [Best] chooses the smallest of these. [GDPSkellam]
// saves 5 to 9% of the noise of [RDP] where evidence will do for a proof. 1,000
// samples of 1% with z = 1 cost ε = 1.829 at δ = 1e-5 by PLD, 2.102 by RDP.
//
// [IntegerBounds] gives the sensitivity of a vector after rounding to
// integers, [ReplaceViews] what the published two-round noise scheme shows,
// and [SamplerError] what inexact samplers add to δ.
//
// # Promise
//
// Every ε is an upper bound: searches and cut-offs err upward (plain
// float64 rounding, about 1e-16 relative, does not), a truncated series or
// distribution has the bound on what was cut off added, a Fourier transform the
// bound on its error, and a mechanism that no accountant covers
// is an error ([ErrNoAccountant]), never a guess. All accountants but
// [GDPSkellam] rest on a proof; that one rests on numerical evidence over a
// certified region, falls back to [RDP] outside, and is named in the result.
//
// Results depend on the events alone, not on their order, nor on what a [Cache]
// holds. Everything in the package is deterministic. PLD takes 2 to 50 ms for up to
// 10,000 releases and 0.1 to 0.5 s for a million, for each distinct event; with
// a Cache a run of 1,000 charges takes about a second.
package dp
