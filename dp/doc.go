// Package dp is differential privacy accounting: what releases cost, how much noise a
// budget needs, and what statement the result supports. Samplers are in the sub-package
// noise; nothing here draws a random number.
//
// # Use
//
// An [Event] is one or more identical releases of one mechanism: [Gaussian],
// [SubsampledGaussian], [Skellam], [SubsampledSkellam]. A [Problem] is a list of events,
// a δ and an [Accountant]; its Epsilon method returns the smallest ε that the accountant
// can show, and the accountant really used. [NoiseMultiplier], [SkellamVariance] and
// [Calibrate] are the inverse: the least noise that meets a budget. A [Ledger] holds one
// client's budget and refuses charges above it. A [Statement] is the privacy statement
// that a run prints.
//
// Which accountant to use: [Exact] for Gaussians without sampling; [PLD] for Gaussians
// over Poisson samples, alone or together with others; [GDPSkellam] for Skellam,
// with and without samples, and for mixtures with it, where it needs 5 to 9% less noise than
// [RDP]; [Best] for the smallest ε of these. For
// example, 1,000 samples of 1% with z = 1 cost ε = 1.829 at δ = 1e-5 by PLD, 2.102 by
// RDP.
//
// [IntegerBounds] is the sensitivity of a vector after rounding to integers,
// [ReplaceViews] what the published two-round noise scheme reveals, and [SamplerError]
// what inexact samplers add to δ.
//
// # Promise
//
// Every ε is an upper bound. Searches and cut-offs err upward (except for plain float64
// rounding, about 1e-16 relative); a bound on what was cut off is added to a truncated
// series or distribution, and a bound on its error to a Fourier transform. A mechanism
// that no accountant covers is an error ([ErrNoAccountant]), never a guess. All
// accountants rest on proofs. That of [GDPSkellam] needs a variance of 16; below it falls back
// to [RDP], which the result names.
//
// Results depend on the events only, not on their order, nor on the contents of a
// [Cache]. Everything in the package is deterministic. PLD takes 2 to 50 ms for up to
// 10,000 releases and 0.1 to 0.5 s for a million, for each distinct event; with a Cache a
// run of 1,000 charges takes about a second.
package dp
