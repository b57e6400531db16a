// Package fedmf is the family of federated matrix factorization: it registers the algorithms, declares their keys and makes
// their parties from a configuration. Package kernel has what the parties compute.
package fedmf

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
)

type family struct {
	about     algorithm.About
	gradients bool // parties send gradients and not embeddings
	langevin  bool // parties take Langevin steps
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p, err := ParamsOf(s)
	if err != nil {
		return nil, err
	}
	switch f.about.Clients {
	case algorithm.ItemParties:
		return openVertical(s, p, f)
	case algorithm.UserParties:
		return openHorizontal(s, p, f)
	default:
		return openUsers(s, p)
	}
}

func gradients(c config.Config) bool {
	f, ok := algorithm.Of(c).(*family)
	return ok && f.gradients
}

func init() {
	declareKeys()
	for _, f := range []*family{
		{about: users("lfl-sgdmf", "matrix factorization with one client per user, secure sums and distributed noise", "FMF, section 6")},
		{about: vertical("vfl-sgdmf", "matrix factorization between organisations that each own some items and share the users' embeddings", "FMF, section 4")},
		{about: horizontal("hfl-sgdmf", "matrix factorization between organisations that each have some users and share the items' embeddings", "FMF, section 5")},
		{about: horizontal("hfl-synsgd", "hfl-sgdmf that averages noisy gradients after every step instead of embeddings after several", "FMF, section 5.3"), gradients: true},
		{about: vertical("dp-sgld", "samples factorizations by noisy Langevin steps, by default in one place: the baseline of vfl-sgdmf", "FMF, Figure 5; Liu, Wang, Smola 2015"), langevin: true},
		{about: plain(users("fmf-lfl", "lfl-sgdmf without noise", "FMF, section 6"))},
		{about: plain(vertical("fmf-vfl", "vfl-sgdmf without noise", "FMF, section 4"))},
		{about: plain(horizontal("fmf-hfl", "hfl-sgdmf without noise", "FMF, section 5"))},
	} {
		switch {
		case f.gradients: // one step a round
			f.about.Rounds = constant(1000)
		case f.langevin:
			f.about.OneParty, f.about.Keys = true, langevinKeys
		case f.about.Private && f.about.Clients == algorithm.Users:
			f.about.LocalNoise = true // its steps follow from the noise in the sum, no matter which client added it
		}
		algorithm.MustRegister(f)
	}
}

func constant(v float64) func(config.Config) float64 {
	return func(config.Config) float64 { return v }
}

func plain(a algorithm.About) algorithm.About {
	a.Private = false
	a.Keys = slices.DeleteFunc(slices.Clone(a.Keys), func(k *config.Key) bool { return k == algorithm.NoiseDraw.Key })
	return a
}

func users(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.Users, Noise: algorithm.DistributedNoise, Private: true, ByUser: true,
		Units: []dp.Unit{dp.User}, Relation: dp.ZeroOut,
		OtherUnit: "a client of " + name + " is a user and u_i is trained on all its ratings, so one rating moves whatever the user sends: privacy is stated per user",
		Keys:      userKeys,
		Rounds:    constant(10), // users talk rarely (FMF paper, section 6.3)
		// In ten noisy rounds nothing above rank 1 is learnt: on the synthetic sets ranks 1 to 20
		// end within 0.004 of one another, and rank 1 sends least.
		Rank: constant(1),
	}
}

func vertical(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.ItemParties, Noise: algorithm.PartyNoise, Private: true,
		Units: []dp.Unit{dp.Rating, dp.User}, Relation: dp.AddRemove,
		Genres: func(c config.Config) bool { return partition.Is(c, string(split.CategoryPartition)) },
		Keys:   verticalKeys, Rounds: constant(100), Rank: constant(1), // FMF paper, section 4.3
	}
}

func horizontal(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.UserParties, Noise: algorithm.PartyNoise, Private: true,
		Units: []dp.Unit{dp.User}, Relation: dp.AddRemove,
		OtherUnit: "a party of " + name + " fits u_i to all ratings of the user without noise, so one rating moves every row of V that the user touches, by more than the bound for one rating; " +
			"the provable bound is worse than privacy per user, which the run states",
		Keys: horizontalKeys, Rounds: constant(100), Rank: constant(1),
	}
}

// Central describes an algorithm with all ratings in one place, without noise and with the keys of a start and of users' fits.
func Central(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.Nobody, Units: []dp.Unit{dp.User}, OtherUnit: name + " protects nothing",
		Relation: dp.ZeroOut,
		Keys:     slices.Concat(startKeys, fitKeys), Rounds: constant(0), Rank: constant(20), // FMF paper, section 4.3
	}
}
