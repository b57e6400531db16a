// Package dp does differential privacy accounting: the cost of releases, the noise that a budget
// needs, and the statement that the result supports. The sub-package noise has the samplers;
// package dp draws no random number.
//
// # Use
//
// An [Event] is one or more identical releases of one mechanism: [Gaussian], [SubsampledGaussian],
// [Skellam], [SubsampledSkellam]. A [Problem] is a list of events, a δ and an [Accountant]. Its
// Epsilon method returns the smallest ε that the accountant can show, and the accountant that was
// used. [NoiseMultiplier], [SkellamVariance] and [Calibrate] are the inverse: the least noise that
// meets a budget. A [Ledger] holds one client's budget and refuses charges above it. A [Statement]
// is the privacy statement that a run prints.
//
// Which accountant to use:
//
//   - [Exact] for Gaussians without sampling;
//   - [PLD] for Gaussians over Poisson samples, alone or together with other Gaussians;
//   - [GDPSkellam] for Skellam, with and without samples, and for mixtures with Skellam,
//     where it needs 5 to 9% less noise than [RDP];
//   - [Best] for the smallest ε of these.
//
// For example, 1,000 samples of 1% with z = 1 cost ε = 1.829 at δ = 1e-5 by PLD, 2.102 by RDP.
//
// [IntegerBounds] returns the sensitivity of a vector after rounding to integers. [ReplaceViews]
// returns the views that the published two-round noise scheme reveals. [SamplerError] returns the
// amount that inexact samplers add to δ.
//
// # Promise
//
// Every ε is an upper bound. Searches and cut-offs err upward, except for plain float64 rounding of
// about 1e-16 relative. A truncated series or distribution is completed by a bound on the part that
// was cut off, and a Fourier transform by a bound on its error. A mechanism that no accountant
// covers is an error ([ErrNoAccountant]), never a guess. All accountants rest on proofs. The proof
// of [GDPSkellam] needs a variance of 16; below 16 it falls back to [RDP], which the result names.
//
// Results depend on the events only. The order of the events and the contents of a [Cache] change
// nothing. Everything in the package is deterministic. For each distinct event, PLD takes 2 to 50
// ms for up to 10,000 releases and 0.1 to 0.5 s for a million. With a Cache a run of 1,000 charges
// takes about a second.
package dp
