// Package noise draws the integer noise of distributed differential privacy. It also splits noise
// that clients have already added into a part that stays and a part that is removed. For parties
// that add noise during their own training it draws normal noise in floating point.
//
// # Use
//
// Clients add noise before the number of participants is known. So each adds noise of a variance a
// that is enough for the smallest allowed number. [Skellam] draws it:
//
//	s, err := noise.NewSkellam(a)
//	err = s.Add(vector, noise.NewBits(stream))
//
// Once the number of participants is known, variance b < a each would have been enough. Every
// client reads the same stream again and removes the surplus, with b/a a ratio of two integers:
//
//	t, err := noise.NewThinning(a/2, keep, of)
//	err = s.Removal(removal, noise.NewBits(sameStream), noise.NewBits(another), t)
//
// Skellam noise is P - Q for two Poisson variables. [Thinning] keeps each of their points with
// probability b/a. The kept and the removed part are then independent and again Skellam, of
// variances b and a-b. So the removal, even in the clear, says nothing about the noise that stays.
// (Thinning |P - Q| instead gives wrong variances and dependent parts.)
//
// A party that adds noise to its own training ([Gaussian]) does so in every step:
//
//	g, err := noise.NewGaussian(sigma)
//	err = g.Add(gradient, bits) // one Bits for the whole training
//
// [Poisson] and [Thinning] can also be used on their own. The package has no randomness itself: the caller provides streams of bytes. These must be uniform,
// independent between streams, secret and, for a Removal, repeatable, such as AES in counter mode
// under a random key. Use the operating system's generator only to key such a stream: reading it
// directly would make normal noise several times slower.
//
// # Promise
//
// Integer draws use integer arithmetic only. Gaussian is the exception, and documents its exactness
// and the information in its low bits. An integer draw compares uniform bits with a table of
// cumulative probabilities in units of 2^-128. The table is computed in integer arithmetic from the
// exact parameters: a mean is the dyadic rational of its float64, a keep probability a ratio of
// integers. No floating point enters such a draw or its table.
//
// Given uniform bits, the distribution of an integer draw is within 2^-100 of the exact one in
// total variation. A table read adds below 2^-107 (derived at newTable). A Poisson reads at most 64
// tables, or more of smaller tables with the same error together. A thinning of a count below 2^32
// reads at most 33; above that count its error grows in proportion to the count. A Skellam draw is
// two Poisson draws, a coordinate of a removal two of each.
//
// Everything is deterministic in the streams: the same bytes give the same draws on every machine.
// If a stream fails, there is an error and no noise, never predictable noise. The time of a draw
// depends on the drawn value, through the cache and a few comparisons. So do not share the machine
// with a party that can time single draws.
package noise
